package workflow_test

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/store/crashimage"
)

// recordedDirEnv is the environment variable with the directory in which TestLifecycleInADirectory
// runs.
const recordedDirEnv = "WORKFLOW_TEST_RECORDED_DIR"

// imagedOperator returns the small operator whose disk writes are recorded. Its store is a file in
// dir.
func imagedOperator(t *testing.T, dir string) *smallOperator {
	t.Helper()
	p := newSmallOperator(t, fiveModules, append(moments(), configChange(9*time.Second), configChange(30*time.Second))...)
	p.path = filepath.Join(dir, "store.db")
	return p
}

// TestLifecycleInADirectory is the program whose disk writes the next test records.
func TestLifecycleInADirectory(t *testing.T) {
	dir := os.Getenv(recordedDirEnv)
	if dir == "" {
		t.Skip("it is run by TestALossOfPowerAtAnyTimeOfALifecycleComesToTheSameEnd")
	}
	mark, err := crashimage.Marks(dir)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		p := imagedOperator(t, dir)
		p.mark = func(format string, args ...any) {
			if err := mark(format, args...); err != nil {
				t.Error(err)
			}
		}
		if !p.run(0, false) {
			t.Error("the small operator has not reached its end")
		}
	})
}

func TestALossOfPowerAtAnyTimeOfALifecycleComesToTheSameEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	recording, err := crashimage.Record(t.Context(), dir, []string{recordedDirEnv + "=" + dir}, os.Args[0], "-test.run=^TestLifecycleInADirectory$")
	if errors.Is(err, crashimage.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := &imageChecker{t: t, ended: map[uint64]bool{}}
	synctest.Test(t, func(t *testing.T) {
		p := imagedOperator(t, dir)
		p.resume(recording.Marks())
		c.want = p.ends()
	})
	images := recording.Check(t, crashimage.Options{Seed: 1, Subsets: 30, Most: 20}, c.check)
	if t.Logf("%d images, %d of them with different records", images, len(c.ended)); images < 3000 || len(c.ended) < 100 {
		t.Error("too few images, or too few different records")
	}
}

// An imageChecker checks crash images. Then it continues the small operator from the image to its end.
// Of several images with the same records, it does so only from the first.
type imageChecker struct {
	t    *testing.T
	want map[string]string // the final state of the undisturbed operator

	mu    sync.Mutex
	ended map[uint64]bool // hashes, see sumOfRecords, of the states from which the small operator was continued
}

// check tests that the store of an image has the events and attempts of all marks that were written
// before the crash. Afterwards it continues the small operator from the image to its end, unless it
// has already done this for an image with the same records.
func (c *imageChecker) check(dir string, image crashimage.Image) {
	fail := func(format string, args ...any) {
		c.t.Errorf("%s, after %d marks: %s", image.Text, len(image.Marks), fmt.Sprintf(format, args...))
	}
	path := filepath.Join(dir, "store.db")
	db, err := store.Open(path, store.Options{})
	if err != nil {
		fail("open: %v", err)
		return
	}
	var sum uint64
	if err := errors.Join(db.Check(), db.View(func(tx *store.Tx) error {
		sum = sumOfRecords(tx, image.Marks)
		for _, lost := range lostMarks(tx, image.Marks) {
			fail("%q was acknowledged and is lost", lost)
		}
		return nil
	}), db.Close()); err != nil {
		fail("%v", err)
	}
	c.mu.Lock()
	again := c.ended[sum]
	c.ended[sum] = true
	c.mu.Unlock()
	if again || c.t.Failed() {
		return
	}
	synctest.Test(c.t, func(t *testing.T) {
		p := imagedOperator(t, dir)
		p.resume(image.Marks)
		if !p.run(0, false) {
			fail("the small operator does not reach its end")
		}
		if diff := cmp.Diff(c.want, p.ends()); diff != "" {
			fail("the end (-undisturbed +crashed):\n%s", diff)
		}
	})
}

// sumOfRecords returns a hash of the state outside of the store and of all records, except those
// that change whenever the store is opened.
func sumOfRecords(tx *store.Tx, marks []string) uint64 {
	var h maphash.Hash
	h.SetSeed(recordSeed)
	for k, v := range tx.Range(nil) {
		if k.Table() == store.Meta && bytes.Contains(k, []byte("epoch")) {
			continue
		}
		maphash.WriteComparable(&h, string(k))
		maphash.WriteComparable(&h, string(v))
	}
	config, releases := outside(marks)
	maphash.WriteComparable(&h, config)
	for _, m := range slices.Sorted(maps.Keys(releases)) {
		maphash.WriteComparable(&h, fmt.Sprint(m, releases[m]))
	}
	return h.Sum64()
}

var recordSeed = maphash.MakeSeed()

// outside returns the state that is not in the store, as the marks describe it: the content of the
// ConfigMap, and the releases.
func outside(marks []string) (config int, releases map[string]int) {
	config, releases = 1, map[string]int{}
	for _, m := range marks {
		f := strings.Fields(m)
		n, _ := strconv.Atoi(f[len(f)-1])
		switch {
		case f[0] == "config":
			config = n
		case f[0] == "release" && n == 0:
			delete(releases, f[1])
		case f[0] == "release":
			releases[f[1]] = n
		}
	}
	return config, releases
}

// resume sets the state outside of the store to the one that marks describe.
func (p *smallOperator) resume(marks []string) { p.config, p.releases = outside(marks) }

// lostMarks returns each mark whose raised event or ended attempt is missing in the store.
func lostMarks(tx *store.Tx, marks []string) (lost []string) {
	known := map[string]bool{}
	for k := range tx.Range(store.At(store.History)) {
		if r, _, err := store.Load[store.Record](tx, k); err == nil {
			known[fmt.Sprintf("recorded %v", attempt{r.Task, r.Node, r.Subject, r.Try})] = true
		}
	}
	for i := range 100 {
		if tx.Get(store.At(store.Values).Str(fmt.Sprint("moment ", i))) != nil {
			known[fmt.Sprint("raised ", i)] = true
		}
	}
	for _, m := range marks {
		m = strings.TrimSpace(m)
		if kind, _, _ := strings.Cut(m, " "); (kind == "raised" || kind == "recorded") && !known[m] {
			lost = append(lost, m)
		}
	}
	return lost
}
