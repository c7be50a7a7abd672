//! Storages: reference-counted memory of one device, with a version.
//!
//! Cloning a [`Storage`] gives another handle to the same bytes. The block underneath can be swapped or taken
//! away (a donated argument), after which every handle sees the change; a lock decides who reads and writes,
//! so no safe call can race another. Whoever holds several locks takes them in order of address.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use lanthorn_compiler::backend::{MemRef, Memory, Readback};
use lanthorn_ir::{Error, ErrorKind, Result};
use smallvec::SmallVec;

use crate::counted::Counted;
use crate::device::Device;
use crate::pool::Block;

/// Memory of one device; clones share it.
#[derive(Clone)]
pub struct Storage {
    device: Device,
    /// `None` only while the handle is dropped.
    node: Option<Counted<Node>>,
}

/// What the handles to one memory share. The last of them gives it back to the pool, which may keep it with its block
/// for the next storage.
pub(crate) struct Node {
    /// What the storage was made for; a block may be larger.
    bytes: usize,
    /// 0 until somebody asks.
    serial: AtomicU64,
    version: AtomicU64,
    /// `None` once the memory has been given away.
    block: RwLock<Option<Block>>,
}

impl Node {
    pub fn new(block: Block) -> Node {
        let block = RwLock::new(Some(block));
        Node { bytes: 0, serial: AtomicU64::new(0), version: AtomicU64::new(0), block }
    }

    /// The block, if it is there.
    pub fn block(&mut self) -> Option<&Block> {
        self.block.get_mut().unwrap_or_else(PoisonError::into_inner).as_ref()
    }

    pub fn take_block(&mut self) -> Option<Block> {
        self.block.get_mut().unwrap_or_else(PoisonError::into_inner).take()
    }
}

pub(crate) fn gone() -> Error {
    Error::new(
        ErrorKind::InvalidHandle,
        "tensor",
        "its memory was donated to a compiled call; use the call's result instead",
    )
}

/// A range that leaves the storage.
fn outside(op: &str, length: usize, offset: usize, size: usize) -> Error {
    Error::shape(op, format!("{length} bytes at {offset} leave a storage of {size}"))
}

impl Storage {
    /// Memory from the device's pool, contents unspecified.
    pub fn allocate(device: &Device, bytes: usize) -> Result<Storage> {
        Ok(Storage::of_node(device, bytes, device.pool().take(bytes)?))
    }

    /// Memory with a copy of `bytes`.
    pub fn from_bytes(device: &Device, bytes: &[u8]) -> Result<Storage> {
        let storage = Storage::allocate(device, bytes.len())?;
        storage.write(0, bytes)?;
        Ok(storage)
    }

    /// Memory of an external owner, such as a mapped file; it does not count as the device's.
    /// Compiled calls copy it rather than take it as donated.
    pub fn external(device: &Device, memory: Arc<dyn Memory>, writable: bool) -> Storage {
        let bytes = memory.bytes();
        Storage::of_block(device, bytes, Block::external(memory, writable))
    }

    pub(crate) fn of_block(device: &Device, bytes: usize, block: Block) -> Storage {
        Storage::of_node(device, bytes, Counted::new(Node::new(block)))
    }

    /// A new storage in a node that nobody else has, which may have been another's.
    #[inline]
    fn of_node(device: &Device, bytes: usize, mut node: Counted<Node>) -> Storage {
        if let Some(node) = node.get_mut() {
            node.bytes = bytes;
            *node.serial.get_mut() = 0;
            *node.version.get_mut() = 0;
        }
        Storage { device: device.clone(), node: Some(node) }
    }

    #[inline]
    fn node(&self) -> &Counted<Node> {
        match &self.node {
            Some(node) => node,
            // Only `drop` takes it away.
            None => unreachable!(),
        }
    }

    /// The memory of a storage to which this is the only handle, without a lock.
    ///
    /// Errors: there are others, or the memory has been given away.
    #[inline]
    pub(crate) fn own_memory(&mut self) -> Result<&dyn Memory> {
        let node = self.node.as_mut().and_then(Counted::get_mut);
        node.and_then(Node::block).map(Block::memory).ok_or_else(gone)
    }

    /// The device whose memory this is.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.node().bytes
    }

    /// Counts the writes: equal versions mean equal contents.
    pub fn version(&self) -> u64 {
        self.node().version.load(Ordering::Acquire)
    }

    pub(crate) fn bump_version(&self) {
        self.node().version.fetch_add(1, Ordering::AcqRel);
    }

    /// How many handles share the memory.
    pub fn handles(&self) -> usize {
        self.node().handles()
    }

    /// False for memory that its owner has given to be read only, or that has been given away.
    pub fn is_writable(&self) -> bool {
        let block = self.node().block.read().unwrap_or_else(PoisonError::into_inner);
        block.as_ref().is_some_and(Block::is_writable)
    }

    /// True if both are handles to one memory.
    pub fn is_same(&self, other: &Storage) -> bool {
        self.node().is_same(other.node())
    }

    /// A number that tells this storage from every other that lives.
    pub fn id(&self) -> usize {
        self.node().address()
    }

    /// A number that tells this storage from every other that there is, was or will be.
    pub fn serial(&self) -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let serial = &self.node().serial;
        match serial.load(Ordering::Relaxed) {
            0 => {
                let new = LAST.fetch_add(1, Ordering::Relaxed) + 1;
                // Another thread may have been first.
                match serial.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => new,
                    Err(given) => given,
                }
            }
            given => given,
        }
    }

    /// The address, if the host can reach it. It holds until the storage is swapped, donated or dropped.
    pub fn host_address(&self) -> Option<std::ptr::NonNull<u8>> {
        let block = self.node().block.read().unwrap_or_else(PoisonError::into_inner);
        block.as_ref().and_then(|block| block.memory().host())
    }

    /// Exchanges the memory of two storages of one size and device; both count as written.
    pub fn swap(&self, other: &Storage) -> Result<()> {
        if self.is_same(other) {
            return Ok(());
        }
        if self.device() != other.device() {
            return Err(Error::new(ErrorKind::Device, "swap", "the storages belong to different devices"));
        }
        if self.bytes() != other.bytes() {
            let (a, b) = (self.bytes(), other.bytes());
            return Err(Error::shape("swap", format!("{a} bytes cannot take the place of {b}")));
        }
        let (first, second) = if self.id() < other.id() { (self, other) } else { (other, self) };
        let mut a = first.node().block.write().unwrap_or_else(PoisonError::into_inner);
        let mut b = second.node().block.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *a, &mut *b);
        self.bump_version();
        other.bump_version();
        Ok(())
    }

    /// Calls `read` with the bytes. It must not write to this storage, which may be locked meanwhile.
    ///
    /// Errors: as [`Storage::read_range`].
    pub fn read<R>(&self, read: impl FnOnce(&[u8]) -> R) -> Result<R> {
        self.read_range(0, self.bytes(), read)
    }

    /// Calls `read` with `length` bytes from `offset` on: where they lie, if the host reaches them, else in a copy.
    ///
    /// Errors: a range that leaves the storage; a device for which the host cannot wait, such as a browser's: use
    /// [`Storage::start_read`] there.
    pub fn read_range<R>(&self, offset: usize, length: usize, read: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let ticket = {
            let access = Access::lock(&[self], &[])?;
            let place = self.place(&access, "read", offset, length)?;
            if place.memory.host().is_some() {
                let address = place.host(length)?;
                // SAFETY: the range lies in the memory, and the lock keeps writers away while the slice lives.
                return Ok(read(unsafe { std::slice::from_raw_parts(address.as_ptr(), length) }));
            }
            self.device().backend().read(place, length)?
        };
        Ok(read(&ticket.wait()?))
    }

    /// Starts to read `length` bytes from `offset` on, as they are now, without waiting for the device.
    pub fn start_read(&self, offset: usize, length: usize) -> Result<Box<dyn Readback>> {
        let access = Access::lock(&[self], &[])?;
        self.device().backend().read(self.place(&access, "read", offset, length)?, length)
    }

    /// Copies `bytes` to the place that begins at `offset`.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let access = Access::lock(&[], &[self])?;
        self.device().backend().write(self.place(&access, "write", offset, bytes.len())?, bytes)?;
        self.bump_version();
        Ok(())
    }

    fn place<'a>(
        &self,
        access: &'a Access<'_>,
        op: &str,
        offset: usize,
        length: usize,
    ) -> Result<MemRef<'a>> {
        if offset.checked_add(length).is_none_or(|end| end > self.bytes()) {
            return Err(outside(op, length, offset, self.bytes()));
        }
        Ok(MemRef { memory: access.memory(self)?, offset })
    }
}

/// Locks on several storages, taken together: each once, in order of address.
pub(crate) struct Access<'a> {
    held: SmallVec<[(usize, Guard<'a>); 8]>,
}

enum Guard<'a> {
    Read(RwLockReadGuard<'a, Option<Block>>),
    Write(RwLockWriteGuard<'a, Option<Block>>),
}

impl<'a> Access<'a> {
    /// A storage that is read and written is locked for writing.
    ///
    /// Errors: memory that has been given away, or is to be written and read-only.
    pub fn lock(reads: &[&'a Storage], writes: &[&'a Storage]) -> Result<Access<'a>> {
        let mut wanted: SmallVec<[(usize, bool, &'a Storage); 8]> = SmallVec::new();
        wanted.extend(reads.iter().map(|&storage| (storage.id(), false, storage)));
        wanted.extend(writes.iter().map(|&storage| (storage.id(), true, storage)));
        // Of one storage the write comes first and the rest is left out.
        wanted.sort_unstable_by_key(|&(id, write, _)| (id, !write));
        wanted.dedup_by_key(|entry| entry.0);
        let mut held = SmallVec::with_capacity(wanted.len());
        for (id, write, storage) in wanted {
            let lock = &storage.node().block;
            let guard = if write {
                Guard::Write(lock.write().unwrap_or_else(PoisonError::into_inner))
            } else {
                Guard::Read(lock.read().unwrap_or_else(PoisonError::into_inner))
            };
            let block = guard.block().ok_or_else(gone)?;
            if write && !block.is_writable() {
                return Err(Error::unsupported(
                    "write",
                    "the memory is its owner's and read-only; copy it first",
                ));
            }
            held.push((id, guard));
        }
        Ok(Access { held })
    }

    fn guard(&self, storage: &Storage) -> Option<&Guard<'a>> {
        let at = self.held.binary_search_by_key(&storage.id(), |entry| entry.0).ok()?;
        Some(&self.held[at].1)
    }

    /// The memory of a storage that is locked here.
    pub fn memory(&self, storage: &Storage) -> Result<&dyn Memory> {
        self.guard(storage).and_then(Guard::block).map(Block::memory).ok_or_else(gone)
    }

    /// Takes the block out of a storage that is locked for writing.
    pub fn take(&mut self, storage: &Storage) -> Option<Block> {
        let at = self.held.binary_search_by_key(&storage.id(), |entry| entry.0).ok()?;
        match &mut self.held[at].1 {
            Guard::Write(guard) => guard.take(),
            Guard::Read(_) => None,
        }
    }
}

impl Guard<'_> {
    fn block(&self) -> Option<&Block> {
        match self {
            Guard::Read(guard) => guard.as_ref(),
            Guard::Write(guard) => guard.as_ref(),
        }
    }
}

/// A lock on one storage for reading.
pub(crate) struct Held<'a>(RwLockReadGuard<'a, Option<Block>>);

impl Held<'_> {
    pub fn memory(&self) -> Result<&dyn Memory> {
        self.0.as_ref().map(Block::memory).ok_or_else(gone)
    }
}

impl Storage {
    /// Locks the storage for reading. Whoever holds another one takes both by [`Storage::hold_both`].
    pub(crate) fn hold(&self) -> Held<'_> {
        Held(self.node().block.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Locks two storages for reading, in order of address; one lock where they are the same.
    pub(crate) fn hold_both<'a>(x: &'a Storage, y: &'a Storage) -> (Held<'a>, Option<Held<'a>>) {
        if x.is_same(y) {
            return (x.hold(), None);
        }
        if x.id() < y.id() {
            let first = x.hold();
            return (first, Some(y.hold()));
        }
        let first = y.hold();
        (x.hold(), Some(first))
    }

    /// True unless the memory has been given away.
    pub(crate) fn is_held(&self) -> bool {
        self.node().block.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// True if no other handle sees the memory and it comes from the pool, so that it may be given away.
    pub(crate) fn is_unique(&self) -> bool {
        let block = self.node().block.read().unwrap_or_else(PoisonError::into_inner);
        self.handles() == 1 && block.as_ref().is_some_and(|block| !block.is_external())
    }
}

impl Drop for Storage {
    #[inline]
    fn drop(&mut self) {
        if let Some(node) = self.node.take().and_then(Counted::into_last) {
            self.device.pool().give_back(node);
        }
    }
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Storage").field("bytes", &self.bytes()).field("version", &self.version()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;

    use lanthorn_compiler::backend::*;
    use lanthorn_compiler::kernel::Kernel;
    use lanthorn_compiler::plan::Plan;
    use lanthorn_ir::{Prim, TensorType};

    use super::*;
    use crate::host::HostMemory;

    /// Memory only, so that Miri has nothing else to run.
    struct MemoryOnly;

    impl Backend for MemoryOnly {
        fn name(&self) -> &'static str {
            "memory"
        }
        fn caps(&self) -> BackendCaps {
            BackendCaps { region_operands: 1, region_steps: 1 }
        }
        fn support(&self, prim: &Prim, _: &[&TensorType]) -> Result<Support> {
            Err(Error::unsupported(prim.name(), "there is only memory"))
        }
        fn requirements(&self, _: &Kernel) -> Requirements {
            Requirements::default()
        }
        fn allocate(&self, bytes: usize) -> Result<Arc<dyn Memory>> {
            Ok(HostMemory::from_vec(vec![0xffu8; bytes]).shared())
        }
        fn lower(&self, _: &Arc<Plan>) -> Result<Box<dyn Program>> {
            Err(Error::unsupported("lower", "there is only memory"))
        }
        fn prepare(&self, _: &Kernel) -> Result<Arc<dyn PreparedKernel>> {
            Err(Error::unsupported("run", "there is only memory"))
        }
    }

    fn device() -> Device {
        Device::new(Arc::new(MemoryOnly))
    }

    #[test]
    fn bytes_are_written_and_read_within_bounds() {
        let storage = Storage::from_bytes(&device(), &[1, 2, 3]).unwrap();
        storage.write(1, &[9]).unwrap();
        assert_eq!(storage.read(<[u8]>::to_vec).unwrap(), [1, 9, 3]);
        assert_eq!(storage.version(), 2);
        assert!(storage.write(2, &[0, 0]).is_err());
        assert!(storage.write(usize::MAX, &[0]).is_err());
    }

    #[test]
    fn a_swap_is_seen_by_every_handle() {
        let device = device();
        let (a, b) =
            (Storage::from_bytes(&device, &[1]).unwrap(), Storage::from_bytes(&device, &[2]).unwrap());
        let handle = a.clone();
        a.swap(&b).unwrap();
        a.swap(&handle).unwrap();
        assert_eq!(handle.read(|bytes| bytes[0]).unwrap(), 2);
        assert!(a.swap(&Storage::from_bytes(&device, &[1, 2]).unwrap()).is_err());
    }

    #[test]
    fn memory_given_away_is_an_error_to_every_handle() {
        let device = device();
        let storage = Storage::from_bytes(&device, &[1]).unwrap();
        let block = Access::lock(&[&storage], &[&storage]).unwrap().take(&storage).unwrap();
        assert_eq!(storage.read(|_| ()).unwrap_err().kind, ErrorKind::InvalidHandle);
        assert!(storage.host_address().is_none() && !storage.is_held());
        assert_eq!(device.stats().live_bytes, 64);
        drop(Storage::of_block(&device, 1, block));
        assert_eq!((device.stats().live_bytes, device.stats().pooled_bytes), (0, 64));
    }

    #[test]
    fn memory_of_an_owner_lives_as_long_as_its_handles_and_may_be_read_only() {
        let device = device();
        let owner = Arc::new(());
        let mut elements = vec![7u8; 4];
        let address = std::ptr::NonNull::from(&mut elements[..]).cast();
        let held: Box<dyn Any + Send + Sync> = Box::new((elements, owner.clone()));
        // SAFETY: the owner holds the vector, and nobody else refers to it.
        let memory = unsafe { HostMemory::from_raw(address, 4, held) };
        let storage = Storage::external(&device, memory.shared(), false);
        assert_eq!(storage.read(|bytes| bytes.len()).unwrap(), 4);
        assert_eq!(storage.write(0, &[1]).unwrap_err().kind, ErrorKind::Unsupported);
        assert_eq!((device.stats().live_bytes, storage.is_unique()), (0, false));
        assert_eq!(Arc::strong_count(&owner), 2);
        drop(storage);
        assert_eq!(Arc::strong_count(&owner), 1);
    }

    #[test]
    fn threads_read_and_write_one_storage_without_a_race() {
        let storage = Storage::from_bytes(&device(), &[0; 16]).unwrap();
        std::thread::scope(|scope| {
            for value in 1..4u8 {
                let storage = &storage;
                scope.spawn(move || {
                    storage.write(0, &[value; 16]).unwrap();
                    let uniform = storage.read(|bytes| bytes.iter().all(|&b| b == bytes[0])).unwrap();
                    assert!(uniform);
                });
            }
        });
    }
}
