package catalog

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"path"
	"sync"
)

// zippers are kept because a new one takes 800 KiB.
var zippers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// packFiles returns a gzipped tar of files below a directory. It depends on nothing but their names
// and data.
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
