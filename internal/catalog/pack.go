package catalog

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"sync"
)

// Pack returns a gzipped tar archive of the files of an addon. [Unpack] reads it. The archive depends only on the
// names and contents of the files.
func Pack(fsys fs.FS) ([]byte, error) {
	var files []file
	err := eachFile(fsys, func(name string, data []byte) { files = append(files, file{name, data}) })
	if err != nil {
		return nil, err
	}
	return packFiles("", files)
}

// Digest returns a SHA-256 checksum over the names and contents of all files of an addon, in hex. A directory and the
// archive that [Pack] makes of it have the same digest.
func Digest(fsys fs.FS) (string, error) {
	sum := sha256.New()
	err := eachFile(fsys, func(name string, data []byte) {
		sum.Write(fmt.Appendf(nil, "%d %s %d ", len(name), name, len(data)))
		sum.Write(data)
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

// eachFile calls the given function for each regular file in fsys, in lexical order. eachFile returns an error if the
// files exceed [DefaultLimits].
func eachFile(fsys fs.FS, do func(name string, data []byte)) error {
	r := newReader(fsys, DefaultLimits)
	all := func(string, fs.FileInfo) bool { return false }
	return r.visit(".", all, func(name, _ string) error {
		data, err := r.read(name)
		if err == nil {
			do(name, data)
		}
		return err
	})
}

// zippers are gzip writers for reuse. A new one would allocate 800 KiB.
var zippers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// packFiles returns a gzipped tar archive that has the given files below the directory dir. The archive depends only on
// dir and on the names and contents of the files.
func packFiles(dir string, files []file) ([]byte, error) {
	var out bytes.Buffer
	zipped, isZipper := zippers.Get().(*gzip.Writer)
	if !isZipper {
		zipped = gzip.NewWriter(nil)
	}
	defer zippers.Put(zipped)
	zipped.Reset(&out)
	w := tar.NewWriter(zipped)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(dir, f.name), Size: int64(len(f.data)), Mode: 0o644}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
