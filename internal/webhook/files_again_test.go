package webhook

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TestFilesThatCannotBeWatchedAreReadAgain replaces a certificate in a directory that did not exist when
// the watch began. In the same way, a watch fails on a node that allows no further inotify instances.
func TestFilesThatCannotBeWatchedAreReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, err1 := newAuthority(time.Now(), 24*time.Hour)
		second, err2 := newAuthority(time.Now(), 24*time.Hour)
		dir := filepath.Join(t.TempDir(), "certificates")
		if err := errors.Join(err1, err2, os.Mkdir(dir, 0o700)); err != nil {
			t.Fatal(err)
		}
		files := writePair(t, dir, first)
		pair, err := files.Load()
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			t.Fatal(err)
		}
		k := NewRotator(time.Second, time.Now, nil, nil)
		k.Offer(pair)
		failures := 0
		go files.Watch(t.Context(), k, pair, func(error) { failures++ })
		synctest.Wait()
		if failures == 0 {
			t.Error("the failure of the watch is not reported")
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		writePair(t, dir, second)
		time.Sleep(time.Hour)
		synctest.Wait()
		if !bytes.Contains(k.Bundle(), bytes.TrimSpace(second.text)) {
			t.Error("after an hour, the new certificate is not known")
		}
	})
}
