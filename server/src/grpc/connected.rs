//! What tonic wants to know of a connection.

use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::incoming::Connection;

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}
