package catalog_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// archive returns a gzipped tar archive of entries, see tarOf.
func archive(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	return zip(t, tarOf(t, entries...))
}

// tarOf returns a tar archive of entries. For a regular file, the field Linkname of the entry has the content of the
// file.
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
	return zipAt(t, gzip.BestSpeed, data)
}

func zipAt(t testing.TB, level int, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, level)
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

// texts returns the contents of all files in a file system, by path.
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

// files returns a file system whose files have the given contents, by path. A path that ends in a slash creates an
// empty directory.
func files(texts map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range texts {
		if dir, isDir := strings.CutSuffix(name, "/"); isDir {
			fsys[dir] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
		} else {
			fsys[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return fsys
}

// archiveOf returns a gzipped tar archive whose files have the given contents, by path. A path that ends in a slash
// creates an empty directory.
func archiveOf(t testing.TB, texts map[string]string) []byte {
	t.Helper()
	var entries []tar.Header
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if strings.HasSuffix(name, "/") {
			entries = append(entries, tar.Header{Name: name, Typeflag: tar.TypeDir})
		} else {
			entries = append(entries, tar.Header{Name: name, Linkname: texts[name]})
		}
	}
	return archive(t, entries...)
}

// addon returns the contents of the files of a small valid addon, by path. For each path in changed, the text replaces
// or adds the file. An empty text removes the file, and a path that ends in a slash creates a directory.
func addon(changed map[string]string) map[string]string {
	all := map[string]string{
		"meta.yaml": `id: 0f4a
name: store
version: 0.0.1
description: keeps values
displayName: Store
tags: database, cache
bindable: true
labels: {showcase: true, pico: bello}
`,
		"chart/store/Chart.yaml":                  "apiVersion: v1\nname: store\nversion: 1.2.3\n",
		"chart/store/values.yaml":                 "size: 1\n",
		"chart/store/templates/config.yaml":       "kind: ConfigMap\n",
		"plans/micro/meta.yaml":                   "{id: 0f4a-micro, name: micro, description: small, displayName: Micro, bindable: true}",
		"plans/micro/values.yaml":                 "size: 2\n",
		"plans/micro/bind.yaml":                   "credential: []\n",
		"plans/large/meta.yaml":                   "{id: 0f4a-large, name: large, description: big, displayName: Large, free: false}",
		"plans/large/create-instance-schema.json": `{"type": "object"}`,
	}
	for name, text := range changed {
		if all[name] = text; text == "" {
			delete(all, name)
		}
		if strings.HasSuffix(name, "/") {
			all[name] = ""
		}
	}
	return all
}

// without returns an argument for [addon] that removes all files whose paths begin with prefix.
func without(prefix string) map[string]string {
	changed := map[string]string{}
	for name := range addon(nil) {
		if strings.HasPrefix(name, prefix) {
			changed[name] = ""
		}
	}
	return changed
}
