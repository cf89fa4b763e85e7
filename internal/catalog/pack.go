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

// Pack returns the archive of an addon, which [Unpack] reads. Equal files give equal archives.
func Pack(fsys fs.FS) ([]byte, error) {
	var files []file
	err := eachFile(fsys, func(name string, data []byte) { files = append(files, file{name, data}) })
	if err != nil {
		return nil, err
	}
	return packFiles("", files)
}

// Digest returns the SHA-256 of all files of an addon, in hex. It is the same for a directory and
// for its archive.
func Digest(fsys fs.FS) (string, error) {
	sum := sha256.New()
	err := eachFile(fsys, func(name string, data []byte) {
		sum.Write(fmt.Appendf(nil, "%d %s %d ", len(name), name, len(data)))
		sum.Write(data)
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

// eachFile calls do for each file, within the default limits. The order depends only on the names.
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

// zippers are reused because a new one allocates 800 KiB.
var zippers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// packFiles returns a gzipped tar of files below a directory. It depends only on their names and
// data.
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
