package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
)

// inMemory is the maximum number of bytes that a spool keeps in memory.
const inMemory = 256 << 10

// A spool stores fetched bytes. It keeps up to inMemory bytes in memory. If there are more, it moves all of them to a
// temporary file. The name of the file is removed at once, so the system frees the file when the spool is closed or the
// process ends.
type spool struct {
	name  string // name of the content in errors, such as "the index"
	limit int64
	disk  *diskSpace

	size int64
	hash hash.Hash
	data bytes.Buffer
	file *os.File
}

// diskSpace counts the disk space that the temporary files of a Fetcher may still use.
type diskSpace struct {
	dir  string
	left atomic.Int64
}

func (d *diskSpace) newSpool(name string, limit int64) *spool {
	return &spool{name: name, limit: limit, disk: d, hash: sha256.New()}
}

// Write adds bytes to the spool. Write returns an error if the spool would exceed its limit, or if no disk space is
// left for it.
func (s *spool) Write(p []byte) (int, error) {
	if s.size+int64(len(p)) > s.limit {
		return 0, s.tooLarge()
	}
	if s.file == nil && s.size+int64(len(p)) > inMemory {
		if err := s.spill(); err != nil {
			return 0, err
		}
	}
	var n int
	var err error
	if s.file == nil {
		n, err = s.data.Write(p)
	} else {
		if s.disk.left.Add(-int64(len(p))) < 0 {
			s.disk.left.Add(int64(len(p)))
			return 0, errNoSpace
		}
		n, err = s.file.Write(p)
		s.disk.left.Add(int64(len(p) - n))
	}
	s.hash.Write(p[:n])
	s.size += int64(n)
	return n, err
}

var errNoSpace = failed("the temporary space for addons is used up; it is free again when other repositories have been fetched")

// tooLarge returns an error that says that the content exceeds the limit of the spool.
func (s *spool) tooLarge() error {
	return invalid("%s is larger than the limit of %s", s.name, size(s.limit))
}

// inDir calls create, which creates a temporary file or directory in dir. If dir is missing, inDir creates dir and calls
// create again: something that cleans temporary directories, such as a hook, may have removed dir.
func inDir[T any](dir string, create func() (T, error)) (T, error) {
	created, err := create()
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o700); err == nil {
			return create()
		}
	}
	return created, err
}

// spill moves the bytes from memory to a temporary file.
func (s *spool) spill() error {
	file, err := inDir(s.disk.dir, func() (*os.File, error) { return os.CreateTemp(s.disk.dir, "spool-") })
	if err != nil {
		return err
	}
	if err := os.Remove(file.Name()); err != nil {
		file.Close()
		return err
	}
	if s.disk.left.Add(-s.size) < 0 {
		s.disk.left.Add(s.size)
		file.Close()
		return errNoSpace
	}
	if _, err := file.Write(s.data.Bytes()); err != nil {
		s.disk.left.Add(s.size)
		file.Close()
		return err
	}
	s.file, s.data = file, bytes.Buffer{}
	return nil
}

// reader returns a new reader of the bytes written so far. It is valid until the spool is closed.
func (s *spool) reader() *io.SectionReader {
	if s.file != nil {
		return io.NewSectionReader(s.file, 0, s.size)
	}
	return io.NewSectionReader(bytes.NewReader(s.data.Bytes()), 0, s.size)
}

// digest returns the SHA-256 checksum of the bytes written so far, in hex.
func (s *spool) digest() string { return hex.EncodeToString(s.hash.Sum(nil)) }

// Close frees the memory and the file of the spool. It may be called more than once, and for a nil spool.
func (s *spool) Close() error {
	if s == nil {
		return nil
	}
	s.data = bytes.Buffer{}
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	s.disk.left.Add(s.size)
	return err
}
