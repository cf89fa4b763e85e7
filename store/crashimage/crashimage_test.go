package crashimage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestAContentIsTheBytesThatWereWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Byte(), 0, 3*sector).Draw(t, "before")
		if rapid.Bool().Draw(t, "hole") {
			want = append(append(want, make([]byte, 20*sector)...), "behind the hole"...)
		}
		c := contentOf(slices.Clone(want))
		for range rapid.IntRange(0, 6).Draw(t, "changes") {
			at := rapid.IntRange(0, 24*sector).Draw(t, "at")
			if rapid.Bool().Draw(t, "whole sectors") {
				at -= at % sector
			}
			if rapid.Bool().Draw(t, "truncate") {
				want = append(want, make([]byte, max(0, at-len(want)))...)[:at]
				c.truncate(at)
			} else {
				b := rapid.SliceOfN(rapid.Byte(), 1, 2*sector).Draw(t, "bytes")
				want = append(want, make([]byte, max(0, at+len(b)-len(want)))...)
				copy(want[at:], b)
				c.write(at, b)
			}
			if rapid.Bool().Draw(t, "clone") {
				other := c
				c = c.clone()
				other.write(0, []byte("of another"))
			}
			if diff := cmp.Diff(want, c.bytes(), cmp.Comparer(func(a, b []byte) bool { return string(a) == string(b) })); diff != "" {
				t.Fatal(diff)
			}
			if got := saved(t, c); !bytes.Equal(want, got) {
				t.Fatalf("the file has other bytes: %s", cmp.Diff(want, got))
			}
			if c.sum != contentOf(want).sum {
				t.Fatal("the hash is not that of the same bytes written at once")
			}
		}
	})
}

// saved saves the content c to an existing file, and returns the bytes of the file.
func saved(t *rapid.T, c *content) []byte {
	dir, err := os.MkdirTemp("", "content-*")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "file")
	if err := errors.Join(os.WriteFile(path, []byte("what was there before"), 0o600), c.save(path)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// lines is the trace of a program that writes and syncs a file, renames it, and writes a mark. After the mark, the
// program writes to the file again, while its second thread creates another file.
var lines = strings.NewReplacer("DIR", hexOf("/d"), "NEW", hexOf("/d/new"), "FILE", hexOf("/d/file"), "OTHER", hexOf("/d/other"), "MARKS", hexOf("/d/marks"), "CWD", hexOf("/")).Replace(`
1 openat(AT_FDCWD<CWD>, "NEW", O_RDWR|O_CREAT|O_EXCL|O_CLOEXEC, 0600) = 3<NEW>
1 write(3<NEW>, "\x61\x61", 2) = 2
1 write(3<NEW>, "\x62", 1) = 1
1 fsync(3<NEW>) = 0
1 renameat(AT_FDCWD<CWD>, "NEW", AT_FDCWD<CWD>, "FILE") = 0
1 fsync(4<DIR>) = 0
1 write(5<MARKS>, "\x6f\x6b\x0a", 3) = 3
2 --- SIGURG {si_signo=SIGURG} ---
1 pwrite64(3<FILE>, "\x63", 1, 0 <unfinished ...>
2 openat(AT_FDCWD<CWD>, "OTHER", O_RDWR|O_CREAT, 0600) = 6<OTHER>
1 <... pwrite64 resumed>) = 1
2 unlinkat(AT_FDCWD<CWD>, "OTHER", 0) = -1 ENOENT (No such file or directory)
1 fdatasync(3<FILE>) = 0
2 ???( <detached ...>
2 ???( <unfinished ...>
2 <... ??? resumed>) = ?
3 fsync(4<DIR> <detached ...>
1 +++ exited with 0 +++
`)

func hexOf(s string) (x string) {
	for _, b := range []byte(s) {
		x += fmt.Sprintf(`\x%02x`, b)
	}
	return x
}

func record(t *testing.T, trace string) *Recording {
	t.Helper()
	p := newParser("/d")
	for line := range strings.Lines(strings.TrimSpace(trace)) {
		if err := p.line(strings.TrimSpace(line)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	return &Recording{ops: p.ops}
}

func TestImagesAreWhatACrashCanLeave(t *testing.T) {
	t.Parallel()
	var got []string
	for image := range record(t, lines).Images(Options{}) {
		var files []string
		for _, name := range slices.Sorted(maps.Keys(image.files)) {
			files = append(files, name+"="+string(image.files[name].bytes()))
		}
		got = append(got, fmt.Sprintf("%d marks, %s", len(image.Marks), strings.Join(files, " ")))
	}
	slices.Sort(got)
	want := []string{
		"0 marks, ",                // the name is lost
		"0 marks, file=aab",        // the synced content is there after the rename
		"0 marks, new=",            // the name is on disk, but the content is lost
		"0 marks, new=\x00\x00b",   // the second write is on disk, the first is lost
		"0 marks, new=aa",          //
		"0 marks, new=aab",         //
		"1 marks, file=aab",        // the content that the mark acknowledges
		"1 marks, file=aab other=", // the other file is on disk, the last write is lost
		"1 marks, file=cab",        //
		"1 marks, file=cab other=", //
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCallsThatTheModelDoesNotKnowAreErrors(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`1 sendfile(3<` + hexOf("/d/a") + `>, 4<` + hexOf("/x") + `>, NULL, 10) = 10`,
		`1 fallocate(3<` + hexOf("/d/a") + `>, FALLOC_FL_PUNCH_HOLE, 0, 10) = 0`,
		`1 renameat(AT_FDCWD, "` + hexOf("/d/a") + `", AT_FDCWD, "` + hexOf("/x/a") + `") = 0`,
		`1 write(3<` + hexOf("/d/a") + `>, "\x61"..., 100) = 100`,
	} {
		p := newParser("/d")
		if err := p.line(line); err == nil {
			t.Errorf("%s: no error", line)
		}
	}
}
