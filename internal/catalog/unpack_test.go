package catalog_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/catalog"
)

func TestArchiveIsUnpackedWithAndWithoutLeadingDotsAndParents(t *testing.T) {
	t.Parallel()
	packed := archive(t,
		tar.Header{Name: "pax_global_header", Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "0123"}},
		tar.Header{Name: "./", Typeflag: tar.TypeDir},
		tar.Header{Name: "./meta.yaml", Linkname: "id: a"},
		tar.Header{Name: "plans/micro/meta.yaml", Linkname: "id: b"}, // a file before its directories
		tar.Header{Name: "plans/", Typeflag: tar.TypeDir},            // a directory after its file
		tar.Header{Name: "chart/" + strings.Repeat("long/", 20) + "name", Linkname: "x"},
		tar.Header{Name: "..data", Linkname: "y"},
		tar.Header{Name: "empty", Typeflag: tar.TypeDir},
	)
	fsys, err := catalog.Unpack(t.Context(), bytes.NewReader(packed), catalog.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"meta.yaml": "id: a", "plans/micro/meta.yaml": "id: b", "chart/" + strings.Repeat("long/", 20) + "name": "x", "..data": "y"}
	if diff := cmp.Diff(want, texts(t, fsys)); diff != "" {
		t.Error(diff)
	}
	if err := fstest.TestFS(fsys, "meta.yaml", "plans/micro/meta.yaml", "empty"); err != nil {
		t.Error(err)
	}
}

func TestEmptyArchiveIsAnEmptyDirectory(t *testing.T) {
	t.Parallel()
	fsys, err := catalog.Unpack(t.Context(), bytes.NewReader(archive(t)), catalog.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(fsys); err != nil {
		t.Error(err)
	}
}

func TestHostileArchiveIsRefusedWithItsReason(t *testing.T) {
	t.Parallel()
	limits := catalog.Limits{File: 100, Total: 1000, Entries: 50}
	outside := `: path must be relative, with slashes and without parent directories`
	special := ": it is a link, a device or of another special type; pack regular files and directories only (tar -h follows links)"
	whole := archive(t, tar.Header{Name: "a", Linkname: strings.Repeat("x", 90)}, tar.Header{Name: "b", Linkname: "y"})
	var many []tar.Header
	for range 51 {
		many = append(many, tar.Header{Name: "d/", Typeflag: tar.TypeDir})
	}
	var large []tar.Header
	for i := range 11 {
		large = append(large, tar.Header{Name: string(rune('a' + i)), Linkname: strings.Repeat("x", 100)})
	}
	for name, c := range map[string]struct {
		packed []byte
		want   string
	}{
		"absolute path":     {archive(t, tar.Header{Name: "/etc/passwd", Linkname: "x"}), `archive entry "/etc/passwd"` + outside},
		"parent":            {archive(t, tar.Header{Name: "../x", Linkname: "x"}), `archive entry "../x"` + outside},
		"parent inside":     {archive(t, tar.Header{Name: "a/../../x", Linkname: "x"}), `archive entry "a/../../x"` + outside},
		"parent that stays": {archive(t, tar.Header{Name: "a/../x", Linkname: "x"}), `archive entry "a/../x"` + outside},
		"parent directory":  {archive(t, tar.Header{Name: "..", Typeflag: tar.TypeDir}), `archive entry ".."` + outside},
		"backslash":         {archive(t, tar.Header{Name: `..\x`, Linkname: "x"}), `archive entry "..\\x"` + outside},
		"deep":              {archive(t, tar.Header{Name: strings.Repeat("a/", 40) + "x", Linkname: "x"}), "path has more than the limit of 32 directories"},
		"symbolic link":     {archive(t, tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/etc"}), `archive entry "a"` + special},
		"hard link":         {archive(t, tar.Header{Name: "a", Typeflag: tar.TypeLink, Linkname: "/etc"}), `archive entry "a"` + special},
		"device":            {archive(t, tar.Header{Name: "a", Typeflag: tar.TypeChar}), `archive entry "a"` + special},
		"pipe":              {archive(t, tar.Header{Name: "a", Typeflag: tar.TypeFifo}), `archive entry "a"` + special},
		"file twice":        {archive(t, tar.Header{Name: "a", Linkname: "x"}, tar.Header{Name: "./a", Linkname: "y"}), `archive entry "./a": there is another file with this name`},
		"file below a file": {archive(t, tar.Header{Name: "a", Linkname: "x"}, tar.Header{Name: "a/b/c", Linkname: "y"}), `archive entry "a/b/c": a directory of its path is a file`},
		"file for a directory": {
			archive(t, tar.Header{Name: "a/b", Linkname: "x"}, tar.Header{Name: "a", Linkname: "y"}),
			`archive entry "a": there is another file with this name`,
		},
		"file for the root": {archive(t, tar.Header{Name: ".", Linkname: "x"}), `archive entry ".": there is another file with this name`},
		"large file":        {archive(t, tar.Header{Name: "a", Linkname: strings.Repeat("x", 101)}), `archive entry "a": file has 101 bytes, more than the limit of 100`},
		"many bytes":        {archive(t, large...), `archive entry "k": archive expands to more than the limit of 1000 bytes`},
		"many entries":      {archive(t, many...), "archive has more than the limit of 50 files and directories"},
		"zeros at the end":  {zip(t, append(tarOf(t), make([]byte, 1<<20)...)), "archive expands to more than the limit of 1000 bytes"},
		"truncated":         {whole[:len(whole)-20], "archive is truncated; pack it again"},
		"without its end":   {whole[:len(whole)-4], "archive is truncated; pack it again"},
		"nothing":           {nil, "archive is truncated; pack it again"},
		"a short page":      {[]byte("<html>"), "archive is not in gzip format; pack it with tar -czf"},
		"a page":            {[]byte("<html>not found</html>"), "archive is not in gzip format; pack it with tar -czf"},
		"no tar":            {zip(t, []byte(strings.Repeat("hello ", 200))), "archive is damaged (archive/tar: invalid tar header); pack it again with tar -czf"},
		"no tar, short":     {zip(t, []byte("hello")), "archive is truncated; pack it again"},
	} {
		fsys, err := catalog.Unpack(t.Context(), bytes.NewReader(c.packed), limits)
		if fsys != nil || err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", name, err, c.want)
		}
	}
}

func TestDamagedArchiveIsRefused(t *testing.T) {
	t.Parallel()
	packed := archive(t, tar.Header{Name: "a", Linkname: strings.Repeat("x", 5000)})
	packed[len(packed)-6] ^= 1 // change a byte of the gzip checksum
	if _, err := catalog.Unpack(t.Context(), bytes.NewReader(packed), catalog.DefaultLimits); !errors.Is(err, gzip.ErrChecksum) {
		t.Error(err)
	}
}

// zeros returns a gzipped tar archive that is practically endless. Each file in it has the given size, and all bytes of
// the file are zero.
func zeros(t *testing.T, size int64) io.Reader {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { r.Close() })
	go func() {
		zipped := gzip.NewWriter(w)
		entries := tar.NewWriter(zipped)
		chunk := make([]byte, 1<<20)
		for i := range 1 << 20 {
			err := entries.WriteHeader(&tar.Header{Name: "x" + strconv.Itoa(i), Size: size, Mode: 0o644})
			for left := size; err == nil && left > 0; left -= 1 << 20 {
				_, err = entries.Write(chunk[:min(left, 1<<20)])
			}
			if err != nil {
				break
			}
		}
		w.Close()
	}()
	return r
}

func TestArchiveThatExpandsWithoutEndCostsNoMoreThanTheLimits(t *testing.T) {
	var before, after runtime.MemStats
	for name, size := range map[string]int64{"one file of 10 GiB": 10 << 30, "files of 4 MiB": 4 << 20} {
		runtime.ReadMemStats(&before)
		_, err := catalog.Unpack(t.Context(), zeros(t, size), catalog.Limits{File: 4 << 20, Total: 16 << 20, Entries: 1000})
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "more than the limit of") {
			t.Errorf("%s: %v", name, err)
		}
		// A growing buffer is copied again and again, so the allocated memory is a few times the size of the files.
		// With the race detector, it is even larger.
		if spent := (after.TotalAlloc - before.TotalAlloc) >> 20; spent > 256 {
			t.Errorf("%s: %d MiB were allocated", name, spent)
		}
	}
}

func TestUnpackingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the operator stops")
	r := io.MultiReader(bytes.NewReader(archive(t, tar.Header{Name: "a", Linkname: "x"})[:20]), readerFunc(func([]byte) (int, error) {
		cancel(why)
		return 0, nil
	}))
	if _, err := catalog.Unpack(ctx, r, catalog.DefaultLimits); !errors.Is(err, why) {
		t.Error(err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// FuzzUnpack checks that Unpack of any archive returns an error, or a valid file system within the limits.
func FuzzUnpack(f *testing.F) {
	for _, entries := range [][]tar.Header{
		{{Name: "./meta.yaml", Linkname: "id: a"}, {Name: "chart/", Typeflag: tar.TypeDir}},
		{{Name: "../a", Linkname: "x"}},
		{{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/etc"}},
		{{Name: strings.Repeat("long/", 40), Typeflag: tar.TypeDir}},
		{{Name: "a", Linkname: "x"}, {Name: "a/b", Linkname: "x"}},
	} {
		f.Add(tarOf(f, entries...))
	}
	limits := catalog.Limits{File: 10_000, Total: 20_000, Entries: 100}
	f.Fuzz(func(t *testing.T, data []byte) {
		fsys, err := catalog.Unpack(t.Context(), bytes.NewReader(zipAt(t, gzip.NoCompression, data)), limits)
		if err != nil {
			if fsys != nil {
				t.Error("both files and an error")
			}
			return
		}
		total := 0
		for name, text := range texts(t, fsys) {
			if !fs.ValidPath(name) {
				t.Errorf("name %q", name)
			}
			total += len(text)
		}
		if total > int(limits.Total) {
			t.Errorf("%d bytes", total)
		}
	})
}
