package store

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"go.etcd.io/bbolt"

	"addon-operator/store/crashimage"
)

// restoreOnce restores the snapshot in the directory dir, and then writes a mark.
func restoreOnce(dir string) error {
	runtime.LockOSThread()
	mark, err := crashimage.Marks(dir)
	if err != nil {
		return err
	}
	_, err = Restore(filepath.Join(dir, "store.db"), filepath.Join(dir, "store.db.snapshot-1"), RestoreOptions{})
	return errors.Join(err, mark("restored"))
}

// recorded returns the operations of a child process on the files of dir. recorded skips the test
// if programs cannot be traced.
func recorded(t *testing.T, child, dir string) *crashimage.Recording {
	t.Helper()
	recording, err := crashimage.Record(t.Context(), dir, []string{childEnv + "=" + child + ":" + dir}, os.Args[0])
	if errors.Is(err, crashimage.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return recording
}

func TestALossOfPowerDuringARestoreLeavesThePresentOrTheRestoredStore(t *testing.T) {
	t.Parallel()
	for name, replaces := range map[string]bool{"a damaged file": true, "no file": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, _ := mustRestorable(t)
			dir := filepath.Dir(path)
			damages["corrupt"].do(t, path)
			present, err := os.ReadFile(path)
			if err == nil && !replaces {
				err = os.Remove(path)
			}
			if err != nil {
				t.Fatal(err)
			}
			recording := recorded(t, "restore", dir)
			images := recording.Check(t, crashimage.Options{Seed: 1, Subsets: 60, Most: 100}, func(dir string, image crashimage.Image) {
				checkRestoreImage(t, dir, image, replaces, sha256.Sum256(present))
			})
			if t.Logf("%d images", images); images < 50 {
				t.Errorf("%d images are no test", images)
			}
		})
	}
}

// checkRestoreImage checks the files in dir, which are the image of an interrupted restore, and
// then restores the snapshot again. If replaces is set, the restore replaces a file whose digest is
// the argument present.
func checkRestoreImage(t *testing.T, dir string, image crashimage.Image, replaces bool, present [32]byte) {
	t.Helper()
	path := filepath.Join(dir, "store.db")
	digest := func(path string) (sum [32]byte) {
		if text, err := os.ReadFile(path); err == nil {
			sum = sha256.Sum256(text)
		}
		return sum
	}
	kept := func() bool {
		names, _ := filepath.Glob(path + "*")
		return !replaces || slices.ContainsFunc(names, func(name string) bool { return digest(name) == present })
	}
	untouched := !replaces && !image.Has("store.db") || replaces && digest(path) == present
	err := error(nil)
	if !untouched || slices.Contains(image.Marks, "restored") {
		err = checkRestored(path)
	}
	if err != nil || !kept() {
		t.Errorf("%s: %v; the replaced file is kept: %v", image.Text, err, kept())
		return
	}
	if _, err = Restore(path, path+".snapshot-1", RestoreOptions{}); err == nil {
		err = checkRestored(path)
	}
	if err != nil || !kept() {
		t.Errorf("%s: restored again: %v; the replaced file is kept: %v", image.Text, err, kept())
	}
}

// upgradeOnce opens the store in the directory dir, which has an older schema, and then writes a mark.
func upgradeOnce(dir string) error {
	runtime.LockOSThread()
	mark, err := crashimage.Marks(dir)
	if err != nil {
		return err
	}
	db, err := Open(filepath.Join(dir, "store.db"), Options{})
	if err != nil {
		return err
	}
	return errors.Join(mark("open"), db.Close())
}

func TestALossOfPowerDuringAnUpgradeLeavesAStoreThatTheNextOpenUpgrades(t *testing.T) {
	t.Parallel()
	for version := uint64(1); version < schema; version++ {
		dir := t.TempDir()
		path := filepath.Join(dir, "store.db")
		db, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		const pending = 300
		err = db.Update(func(tx *Tx) error {
			err := Save(tx, RunKey(1), Run{ID: 1, Open: pending})
			for i := range uint64(pending) {
				err = errors.Join(err, SaveTask(tx, anEvent(i, "b")))
			}
			return err
		})
		want := events(t, db)
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		edit(t, path, func(b *bbolt.Bucket) error {
			c := b.Cursor()
			for k, v := c.First(); k != nil; k, v = c.Next() {
				switch {
				case Key(k).Table() == Events:
					if err := c.Delete(); err != nil {
						return err
					}
				case version == 1 && len(v) > sealSize && v[0] == sealMark:
					if err := b.Put(slices.Clone(k), slices.Clone(v[sealSize:])); err != nil {
						return err
					}
				}
			}
			return b.Put(schemaKey(), number(version))
		})
		images := recorded(t, "upgrade", dir).Check(t, crashimage.Options{Seed: 1, Subsets: 60, Most: 100}, func(dir string, image crashimage.Image) {
			db, err := Open(filepath.Join(dir, "store.db"), Options{})
			if err != nil {
				t.Errorf("%s: %v", image.Text, err)
				return
			}
			if got := events(t, db); !slices.Equal(got, want) || len(want) != pending {
				t.Errorf("%s: %d of %d events are in the index", image.Text, len(got), pending)
			}
			if err := errors.Join(db.Check(), db.Close()); err != nil {
				t.Errorf("%s: %v", image.Text, err)
			}
		})
		if t.Logf("schema %d: %d images", version, images); images < 100 {
			t.Errorf("%d images are no test", images)
		}
	}
}
