// Package crashimage computes the files that a power loss can leave, for tests.
//
// Record runs a program under strace and records, in order, its operations on the files of one
// directory. Images then yields the contents that the directory may have after a crash at any time
// of the recording.
//
// The model is POSIX with journaled names, as ext4 and XFS are configured:
//
//   - Written data and a new length may be lost until an fsync or fdatasync of the file has begun
//     and returned after the write. Before that sync, each sector of 512 bytes of the data can be
//     on disk or not.
//   - Changes of names (creation, link, rename, removal) may be lost until an fsync of their
//     directory. Before that sync, a crash keeps any number of the earliest changes of names, and
//     loses all later changes. Whether a change of a name is kept does not depend on the data of
//     the file.
//
// The technique is that of ALICE (Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014).
package crashimage
