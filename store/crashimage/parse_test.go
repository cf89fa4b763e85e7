package crashimage

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// path returns the name of a file of the directory as strace prints it.
func path(name string) string { return hexOf("/d/" + name) }

// parsed parses the lines of a trace of the directory /d.
func parsed(lines ...string) ([]operation, error) {
	p := newParser("/d")
	for _, line := range lines {
		if err := p.line(line); err != nil {
			return nil, err
		}
	}
	return p.ops, nil
}

// shownOps describes operations as "kind name other offset data".
func shownOps(ops []operation) (all []string) {
	kinds := map[kind]string{
		write: "write", truncate: "truncate", extend: "extend", create: "create", link: "link", rename: "rename", remove: "remove",
		syncFile: "sync file", syncDir: "sync directory", mark: "mark",
	}
	for _, op := range ops {
		all = append(all, fmt.Sprintf("%s %s %s %d %q", kinds[op.kind], op.name, op.other, op.offset, op.data))
	}
	return all
}

func TestEachKnownCallIsAnOperation(t *testing.T) {
	t.Parallel()
	f := "3<" + path("a") + ">"
	for name, test := range map[string]struct {
		lines []string
		want  []string
	}{
		"a new file":             {[]string{`1 openat(AT_FDCWD<` + hexOf("/") + `>, "` + path("a") + `", O_RDWR|O_CREAT, 0600) = 3`}, []string{`create a  0 ""`}},
		"a file that is emptied": {[]string{`1 openat(AT_FDCWD, "` + path("a") + `", O_WRONLY|O_CREAT|O_TRUNC, 0600) = 3`}, []string{`create a  1 ""`}},
		"a file that is read":    {[]string{`1 openat(AT_FDCWD, "` + path("a") + `", O_RDONLY) = 3`}, nil},
		"the directory":          {[]string{`1 openat(AT_FDCWD, "` + hexOf("/d") + `", O_RDONLY) = 3`}, nil},
		"another directory":      {[]string{`1 openat(AT_FDCWD, "` + hexOf("/d/e/a") + `", O_RDWR|O_CREAT, 0600) = 3`, `1 write(3<` + hexOf("/d/e/a") + `>, "\x61", 1) = 1`}, nil},
		"writes in turn": {
			[]string{`1 write(` + f + `, "\x61\x62", 2) = 2`, `1 write(` + f + `, "\x63", 1) = 1`}, []string{`write a  0 "ab"`, `write a  2 "c"`},
		},
		"a write after a seek": {[]string{`1 lseek(` + f + `, 100, SEEK_SET) = 100`, `1 write(` + f + `, "\x61", 1) = 1`}, []string{`write a  100 "a"`}},
		"a write through a new descriptor of the same number": {
			[]string{`1 write(` + f + `, "\x61\x62", 2) = 2`, `1 openat(AT_FDCWD, "` + path("b") + `", O_RDWR) = 3<` + path("b") + `>`, `1 write(3<` + path("b") + `>, "\x63", 1) = 1`},
			[]string{`write a  0 "ab"`, `write b  0 "c"`},
		},
		"a write at a position": {[]string{`1 pwrite64(` + f + `, "\x61", 1, 4096) = 1`}, []string{`write a  4096 "a"`}},
		"a length":              {[]string{`1 ftruncate(` + f + `, 512) = 0`}, []string{`truncate a  512 ""`}},
		"space":                 {[]string{`1 fallocate(` + f + `, 0, 512, 1024) = 0`}, []string{`extend a  1536 ""`}},
		"syncs":                 {[]string{`1 fsync(` + f + `) = 0`, `1 fdatasync(` + f + `) = 0`, `1 fsync(4<` + hexOf("/d") + `>) = 0`}, []string{`sync file a  0 ""`, `sync file a  0 ""`, `sync directory   0 ""`}},
		"names": {
			[]string{
				`1 linkat(AT_FDCWD, "` + path("a") + `", AT_FDCWD, "` + path("b") + `", 0) = 0`, `1 renameat(AT_FDCWD, "` + path("b") + `", AT_FDCWD, "` + path("c") + `") = 0`,
				`1 renameat2(AT_FDCWD, "` + path("c") + `", AT_FDCWD, "` + path("d") + `", RENAME_NOREPLACE) = 0`, `1 unlinkat(AT_FDCWD, "` + path("d") + `", 0) = 0`,
			},
			[]string{`link a b 0 ""`, `rename b c 0 ""`, `rename c d 0 ""`, `remove d  0 ""`},
		},
		"a mark":                 {[]string{`1 write(5<` + path("marks") + `>, "\x6f\x6b", 2) = 2`}, []string{`mark   0 "ok"`}},
		"the file of the marks":  {[]string{`1 openat(AT_FDCWD, "` + path("marks") + `", O_WRONLY|O_CREAT|O_APPEND, 0600) = 5`}, nil},
		"calls that fail":        {[]string{`1 write(` + f + `, "\x61", 1) = -1 ENOSPC (No space left on device)`, `1 unlinkat(AT_FDCWD, "` + path("d") + `", 0) = -1 ENOENT (No such file)`, `1 fsync(` + f + `) = ?`}, nil},
		"calls of another file":  {[]string{`1 write(1<` + hexOf("/dev/null") + `>, "\x61", 1) = 1`, `1 fsync(9<` + hexOf("/x") + `>) = 0`, `1 sendfile(9<` + hexOf("/x") + `>, 8<` + hexOf("/y") + `>, NULL, 10) = 10`}, nil},
		"signals and their ends": {[]string{`1 --- SIGURG {si_signo=SIGURG} ---`, `1 +++ exited with 0 +++`, `1 ???( <unfinished ...>`, `1 <... ??? resumed>) = ?`}, nil},
	} {
		ops, err := parsed(test.lines...)
		if diff := cmp.Diff(test.want, shownOps(ops)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestACallBesideOthersReturnsLater(t *testing.T) {
	t.Parallel()
	a, b := "3<"+path("a")+">", "4<"+path("b")+">"
	ops, err := parsed(
		`1 pwrite64(`+a+`, "\x61", 1, 0 <unfinished ...>`,
		`2 pwrite64(`+b+`, "\x62", 1, 0) = 1`,
		`3 fsync(`+b+` <unfinished ...>`,
		`1 <... pwrite64 resumed>) = 1`,
		`3 <... fsync resumed>) = 0`,
		`2 fsync(`+a+` <detached ...>`,
	)
	if err != nil {
		t.Fatal(err)
	}
	var returned []int
	for _, op := range ops {
		returned = append(returned, op.returned)
	}
	if diff := cmp.Diff([]int{3, 2, 3, math.MaxInt}, returned); diff != "" {
		t.Errorf("numbers of operations that had begun at their return (-want +got):\n%s", diff)
	}
}

func TestARemovalThatFailsBesideOthersChangesNothing(t *testing.T) {
	t.Parallel()
	ops, err := parsed(
		`1 unlinkat(AT_FDCWD, "`+path("a")+`", 0 <unfinished ...>`,
		`2 --- SIGURG {si_signo=SIGURG} ---`,
		`1 <... unlinkat resumed>) = -1 ENOENT (No such file or directory)`,
	)
	got := imagesOf(map[string]string{"a": "1"}, Options{}, ops...)
	if diff := cmp.Diff([]string{"a=1"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestACallBesideOthersThatIsNotUnderstoodIsAnError(t *testing.T) {
	t.Parallel()
	a := "3<" + path("a") + ">"
	for want, lines := range map[string][]string{
		"fsync failed while another call was running, which the model does not support: EIO": {`1 fsync(` + a + ` <unfinished ...>`, `1 <... fsync resumed>) = -1 EIO`},
		"pwrite64 of 2 bytes wrote 1, which the model does not support":                      {`1 pwrite64(` + a + `, "\x61\x62", 2, 0 <unfinished ...>`, `1 <... pwrite64 resumed>) = 1`},
		`cannot read`: {`1 <... fsync resumed>) = 0`},
		"the line that begins call openat does not show what it changes": {
			`1 openat(AT_FDCWD, "` + path("a") + `", O_RDONLY <unfinished ...>`, `1 <... openat resumed>|O_CREAT, 0600) = 3`,
		},
	} {
		if ops, err := parsed(lines...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want %q", shownOps(ops), err, want)
		}
	}
}

func TestALineThatTheModelDoesNotKnowNamesTheCall(t *testing.T) {
	t.Parallel()
	a := "3<" + path("a") + ">"
	for line, want := range map[string]string{
		`no line of strace`: `cannot read "no line of strace"`,
		`1 writev(` + a + `, [{iov_base=10, iov_len=1}], 1) = 1`:                          "call writev of a file of the directory is not known",
		`1 lseek(` + a + `, 0, SEEK_END) = 100`:                                           "call lseek of a file of the directory is not known",
		`1 linkat(AT_FDCWD, "` + path("a") + `", AT_FDCWD, "` + hexOf("/x") + `", 0) = 0`: "call linkat of a file of the directory is not known",
		`1 open("` + path("a") + `", O_RDONLY) = 3`:                                       "call open is not known",
		`1 creat("` + path("a") + `", 0600) = 3`:                                          "call creat is not known",
		`1 write(` + a + `, "\x61\x62", 2) = 1`:                                           "write of 2 bytes wrote 1, which the model does not support",
		`1 write(` + a + `, "\x61", 1 = 1`:                                                "cannot read",
		`1 write(` + a + `, "\x6", 1) = 1`:                                                "write: encoding/hex: odd length hex string",
		`1 write(` + a + `, "\x61"..., 70) = 70`:                                          "write: a string was cut off",
		`1 mkdirat(AT_FDCWD, "` + path("a") + `", 0700) = 0`:                              "call mkdirat of a file of the directory is not known",
		`1 renameat(AT_FDCWD, "` + hexOf("/x") + `", AT_FDCWD, "` + path("a") + `") = 0`:  "call renameat of a file of the directory is not known",
	} {
		if ops, err := parsed(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", line, shownOps(ops), err, want)
		}
	}
}

// imagesOf returns the contents of the images of operations on a directory with the given files, each as
// "name=content …".
func imagesOf(before map[string]string, o Options, ops ...operation) []string {
	r := &Recording{before: map[string][]byte{}, ops: ops}
	for name, content := range before {
		r.before[name] = []byte(content)
	}
	for i := range r.ops {
		r.ops[i].returned = i + 1
	}
	var all []string
	for image := range r.Images(o) {
		var files []string
		for _, name := range slices.Sorted(maps.Keys(image.files)) {
			files = append(files, name+"="+string(image.files[name].bytes()))
		}
		all = append(all, strings.Join(files, " "))
	}
	slices.Sort(all)
	return all
}

func TestACrashLeavesChangesOfNamesInTheirOrder(t *testing.T) {
	t.Parallel()
	got := imagesOf(map[string]string{"a": "1", "b": "2"}, Options{},
		operation{kind: link, name: "b", other: "aside"}, operation{kind: rename, name: "a", other: "b"}, operation{kind: remove, name: "aside"})
	want := []string{"a=1 aside=2 b=2", "a=1 b=2", "aside=2 b=1", "b=1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestASyncOfAFileDoesNotMakeItsNameDurable(t *testing.T) {
	t.Parallel()
	create, data := operation{kind: create, name: "a"}, operation{kind: write, name: "a", data: []byte("1")}
	for name, test := range map[string]struct {
		ops  []operation
		want []string
	}{
		"no sync":                {[]operation{create, data}, []string{"", "a=", "a=1"}},
		"of the file":            {[]operation{create, data, {kind: syncFile, name: "a"}}, []string{"", "a=", "a=1"}},
		"of the directory":       {[]operation{create, {kind: syncDir}, data}, []string{"", "a=", "a=1"}},
		"of both, at their ends": {[]operation{create, data, {kind: syncFile, name: "a"}, {kind: syncDir}, {kind: mark, data: []byte("done")}}, []string{"", "a=", "a=1", "a=1"}},
	} {
		if diff := cmp.Diff(test.want, imagesOf(nil, Options{}, test.ops...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	durable := operation{kind: remove, name: "a"}
	if diff := cmp.Diff([]string{"", "a=1"}, imagesOf(map[string]string{"a": "1"}, Options{}, durable, operation{kind: syncDir})); diff != "" {
		t.Errorf("a removal (-want +got):\n%s", diff)
	}
}

func TestAWriteIsCutAtSectors(t *testing.T) {
	t.Parallel()
	const old, now = "o", "n"
	before := strings.Repeat(old, 3*sector)
	data := []byte(strings.Repeat(now, 2*sector))
	got := imagesOf(map[string]string{"a": before}, Options{}, operation{kind: write, name: "a", offset: 100, data: data})
	var want []string
	for _, cut := range []int{0, sector - 100, 2*sector - 100, 2 * sector} {
		want = append(want, "a="+before[:100]+strings.Repeat(now, cut)+before[100+cut:])
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLengthsOfFilesAreChanges(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		op   operation
		want []string
	}{
		"shorter":                     {operation{kind: truncate, name: "a", offset: 1}, []string{"a=x", "a=xyz"}},
		"longer":                      {operation{kind: truncate, name: "a", offset: 5}, []string{"a=xyz", "a=xyz\x00\x00"}},
		"space":                       {operation{kind: extend, name: "a", offset: 4}, []string{"a=xyz", "a=xyz\x00"}},
		"space that the file has":     {operation{kind: extend, name: "a", offset: 2}, []string{"a=xyz"}},
		"a file that is opened empty": {operation{kind: create, name: "a", offset: 1}, []string{"a=", "a=xyz"}},
		"a file that is opened":       {operation{kind: create, name: "a"}, []string{"a=xyz"}},
	} {
		if diff := cmp.Diff(test.want, imagesOf(map[string]string{"a": "xyz"}, Options{}, test.op)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTheSeedDecidesTheRandomImages(t *testing.T) {
	t.Parallel()
	var ops []operation
	for i := range 12 {
		ops = append(ops, operation{kind: write, name: "a", offset: int64(i * sector), data: []byte{byte('a' + i)}})
	}
	images := func(seed uint64) []string {
		return imagesOf(map[string]string{"a": ""}, Options{Seed: seed, Subsets: 20, Most: 3}, ops...)
	}
	one, again, other := images(1), images(1), images(2)
	if !slices.Equal(one, again) || slices.Equal(one, other) {
		t.Error("the images do not depend on the seed alone")
	}
	if len(one) < 10 || len(one) > 23 {
		t.Errorf("%d images of 20 random subsets and at most 3 others", len(one))
	}
}

func TestAnImageReplacesTheFilesOfADirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "a longer text of before", "gone": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	image := Image{files: map[string]*content{"a": contentOf([]byte("short")), "new": contentOf(nil)}}
	if err := image.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := filesOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]byte{"a": []byte("short"), "new": {}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !image.Has("a") || image.Has("gone") {
		t.Errorf("the image has a: %t, gone: %t", image.Has("a"), image.Has("gone"))
	}
	if err := image.Write(filepath.Join(dir, "missing")); err == nil {
		t.Error("an image was written to a directory that does not exist")
	}
}

func TestMarksAreLinesInTheirOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 2 { // a second program appends its marks
		mark, err := Marks(dir)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 2 {
			if err := mark("update %d of %d", n, i); err != nil {
				t.Fatal(err)
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, marksName))
	if want := "update 0 of 0\nupdate 1 of 0\nupdate 0 of 1\nupdate 1 of 1\n"; err != nil || string(text) != want {
		t.Errorf("%q, %v, want %q", text, err, want)
	}
	r := &Recording{ops: []operation{{kind: mark, data: []byte("a")}, {kind: syncDir}, {kind: mark, data: []byte("b")}}}
	if got := r.Marks(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("marks %q", got)
	}
	if _, err := Marks(filepath.Join(dir, "missing")); err == nil {
		t.Error("marks are written to a directory that does not exist")
	}
}

func TestChangesAreDescribedForPeople(t *testing.T) {
	t.Parallel()
	for want, op := range map[string]operation{
		"3 bytes at 512 of a":       {kind: write, name: "a", offset: 512, data: []byte("xyz")},
		"length 7 of a":             {kind: truncate, name: "a", offset: 7},
		"length of at least 7 of a": {kind: extend, name: "a", offset: 7},
		"creation of a":             {kind: create, name: "a"},
		"removal of a":              {kind: remove, name: "a"},
		"link of a to b":            {kind: link, name: "a", other: "b"},
		"rename of a to b":          {kind: rename, name: "a", other: "b"},
		"no change":                 {kind: syncDir},
	} {
		if got := (change{operation: &op}).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
