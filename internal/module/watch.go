package module

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settleTime is the time without further changes after which Watch reports changes. The copying of a module
	// causes many changes, because a module has many files.
	settleTime = 300 * time.Millisecond
	// longestSettle is the maximum time after a change until Watch reports it, even if more changes follow all the
	// time.
	longestSettle = 5 * time.Second
)

// Watch calls changed() after files below roots have changed, until ctx ends. For several changes in a short time, it
// makes only one call. Watch calls failed(err) if a directory cannot be watched, and after an error of the watcher, but
// only once for each error text. Watch does not notice changes in a directory that cannot be watched, in hidden
// directories, in venv and in node_modules. It returns nil when ctx has ended, and an error if no watcher can be
// created.
func Watch(ctx context.Context, roots []string, failed func(error), changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch the module directories: %w", err)
	}
	defer func() { _ = watcher.Close() }() // the error does not matter, because nothing was written
	w := watch{watcher: watcher, failed: failed, reported: map[string]bool{}}
	w.addAll(roots)
	settled, latest := time.NewTimer(settleTime), time.NewTimer(longestSettle)
	settled.Stop()
	latest.Stop()
	defer settled.Stop()
	defer latest.Stop()
	pending := false
	touched := func() {
		if !pending {
			pending = true
			latest.Reset(longestSettle)
		}
		settled.Reset(settleTime)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-watcher.Errors:
			w.fail(err)
			touched() // events may be lost
			continue
		case <-watcher.Events:
			touched()
			continue
		case <-settled.C:
		case <-latest.C:
		}
		pending = false
		settled.Stop()
		latest.Stop()
		w.addAll(roots)
		changed()
	}
}

// watch is the state of Watch.
type watch struct {
	watcher  *fsnotify.Watcher
	failed   func(error)
	reported map[string]bool
}

func (w *watch) fail(err error) {
	if !w.reported[err.Error()] {
		w.reported[err.Error()] = true
		w.failed(err)
	}
}

// addAll adds the directories at and below roots to the watcher, except hidden directories, venv and node_modules. A
// directory that is watched already stays watched.
func (w *watch) addAll(roots []string) {
	for _, root := range roots {
		w.add(root, 0)
	}
}

func (w *watch) add(dir string, depth int) {
	if err := w.watcher.Add(dir); err != nil {
		w.fail(fmt.Errorf("directory %s is not watched: %w; run addon-operator reload after changes, or raise fs.inotify.max_user_watches", dir, err))
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil || depth == maxDepth {
		return // the directory has vanished, or is nested too deeply
	}
	for _, entry := range entries {
		under := filepath.Join(dir, entry.Name())
		if strings.HasPrefix(entry.Name(), ".") || entry.Name() == "venv" || entry.Name() == "node_modules" {
			continue
		}
		// The directory of a module may be a symlink. Symlinks to directories inside a module are not followed here,
		// so changes in their targets are not noticed.
		if entry.IsDir() || depth == 0 && entry.Type()&os.ModeSymlink != 0 && isDir(under) {
			w.add(under, depth+1)
		}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
