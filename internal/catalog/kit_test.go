package catalog_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"testing"
)

// archive returns a gzipped tar of entries.
func archive(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	return zip(t, tarOf(t, entries...))
}

// tarOf returns a tar of entries. The link name of a regular file is its text.
func tarOf(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, header := range entries {
		text := ""
		if header.Typeflag == 0 || header.Typeflag == tar.TypeReg {
			text, header.Linkname = header.Linkname, ""
			header.Size = int64(len(text))
		}
		if header.Typeflag != tar.TypeXGlobalHeader {
			header.Mode = 0o644
		}
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zip(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// texts returns the files of a file system by path.
func texts(t testing.TB, fsys fs.FS) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(fsys, name)
		all[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
