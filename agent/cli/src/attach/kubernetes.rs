//! Finds out which container of which pod a process is in, by Kubernetes' names.

/// A container in the words of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContainerName {
    pub(super) pod_uid: String,
    /// Name of the container within the pod.
    pub(super) container: String,
}

impl ContainerName {
    /// Finds the names in a process's mount table, which any user may read: the kubelet mounts a file for each
    /// container from the path `.../pods/UID/containers/NAME/SERIAL`.
    pub(super) fn parse(mountinfo: &str) -> Option<Self> {
        mountinfo.lines().find_map(|line| {
            let mut parts = line.split(' ').nth(3)?.rsplit('/');
            let (_serial, container, containers) = (parts.next()?, parts.next()?, parts.next()?);
            let (pod_uid, pods) = (parts.next()?, parts.next()?);
            (containers == "containers" && pods == "pods")
                .then(|| Self { pod_uid: pod_uid.to_owned(), container: container.to_owned() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_names_are_read_from_mount_tables() {
        let table = "1 2 254:1 / / rw - ext4 /dev/vda1 rw\n\
            9 2 254:1 /var/lib/kubelet/pods/5f0e/etc-hosts /etc/hosts rw - ext4 /dev/vda1 rw\n\
            9 2 254:1 /data/kubelet/pods/5f0e/containers/build/2a1b /dev/termination-log rw - ext4 /dev/vda1 rw\n";
        let name = ContainerName::parse(table).unwrap();
        assert_eq!((name.pod_uid.as_str(), name.container.as_str()), ("5f0e", "build"));
        assert_eq!(ContainerName::parse("1 2 254:1 / / rw - ext4 x rw\nbroken\n"), None);
    }
}
