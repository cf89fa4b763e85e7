// Package crashimage makes the files that a loss of power can leave of what a program was doing, for tests.
//
// Record runs a program under strace and keeps what it does to the files of one directory, in order. Images
// then yields what the directory may contain after a crash at any time of the recording.
//
// The model is that of POSIX with a journal of names, as ext4 and XFS are used:
//
//   - What was written, and a new length, may be lost until an fsync or fdatasync of the file that began after
//     it has returned. Until then any part of it can be on disk, in any order, cut at sectors of 512 bytes.
//   - Names (creation, link, rename, removal) may be lost until an fsync of their directory. Until then a crash
//     keeps the first few of them, in their order. They are independent of what is written to the files.
//
// The technique is that of ALICE (Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014).
package crashimage
