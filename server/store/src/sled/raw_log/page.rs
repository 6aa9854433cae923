//! Parses the content of a message about a page: the whole page, or one change of it.

use super::message::LogCursor;

/// The position and length of a value in the body of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ValueAt {
    pub(super) position: usize,
    pub(super) len: usize,
}

/// A page: the keys from `lo` (included) to `hi` (excluded). An empty `lo` is the start of the tree, an empty
/// `hi` its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PageNode<'a> {
    /// Number of leading bytes that all keys of the page share with `lo`; the keys in the message lack them.
    pub(super) prefix: usize,
    pub(super) next: u64,
    pub(super) start: &'a [u8],
    pub(super) end: &'a [u8],
    pub(super) content: PageContent<'a>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PageContent<'a> {
    /// Entries of a leaf page: each key without its leading bytes, and the position of its value.
    Leaf(Vec<(&'a [u8], ValueAt)>),
    /// Children of an index page: the first key of each child page, without its leading bytes, and the number
    /// of that page.
    Index(Vec<(&'a [u8], u64)>),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PageChange<'a> {
    /// Sets the value of a key; the key lacks its leading bytes.
    Set(&'a [u8], ValueAt),
    /// Removes a key; the key lacks its leading bytes.
    Delete(&'a [u8]),
    /// A step of merging two pages. It changes no entries: the merged page is written after it.
    Merge,
}

impl<'a> PageNode<'a> {
    /// Parses the body of a message; `None` if it is not a page.
    pub(super) fn read(body: &'a [u8]) -> Option<Self> {
        let mut cursor = LogCursor { bytes: body, position: 0 };
        let (next, _merging_child) = (cursor.varint()?, cursor.varint()?);
        let _merging = cursor.byte()?;
        let prefix = usize::from(cursor.byte()?);
        let (lo, hi) = (cursor.take_slice()?, cursor.take_slice()?);
        let is_leaf = match cursor.byte()? {
            0 => true,
            1 => false,
            _ => return None,
        };
        // each key takes at least one byte, so a larger count is false and is refused
        let count = usize::try_from(cursor.varint()?).ok().filter(|count| *count <= body.len())?;
        let keys = (0..count).map(|_| cursor.take_slice()).collect::<Option<Vec<_>>>()?;
        let content = if is_leaf {
            let values = (0..count).map(|_| value_at(&mut cursor)).collect::<Option<Vec<_>>>()?;
            PageContent::Leaf(keys.into_iter().zip(values).collect())
        } else {
            let pages = (0..count).map(|_| cursor.varint()).collect::<Option<Vec<_>>>()?;
            PageContent::Index(keys.into_iter().zip(pages).collect())
        };
        let ordered = hi.is_empty() || lo < hi;
        (prefix <= lo.len() && ordered && cursor.position == body.len()).then_some(Self {
            prefix,
            next,
            start: lo,
            end: hi,
            content,
        })
    }

    /// The full key of an entry of this page.
    pub(super) fn full_key(&self, key: &[u8]) -> Vec<u8> {
        [self.start.get(..self.prefix).unwrap_or_default(), key].concat()
    }
}

impl<'a> PageChange<'a> {
    /// Parses the body of a message; `None` if it is not a change.
    pub(super) fn read(body: &'a [u8]) -> Option<Self> {
        let mut cursor = LogCursor { bytes: body, position: 0 };
        let change = match cursor.byte()? {
            0 => Self::Set(cursor.take_slice()?, value_at(&mut cursor)?),
            1 => Self::Delete(cursor.take_slice()?),
            2 => {
                cursor.varint()?;
                Self::Merge
            }
            3 | 4 => Self::Merge,
            _ => return None,
        };
        (cursor.position == body.len()).then_some(change)
    }
}

fn value_at(cursor: &mut LogCursor<'_>) -> Option<ValueAt> {
    let len = cursor.take_slice()?.len();
    Some(ValueAt { position: cursor.position - len, len })
}
