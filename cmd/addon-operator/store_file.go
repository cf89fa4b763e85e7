package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/rs/zerolog"

	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/store"
)

// clusterWait is the maximum time that a start waits for the ID of the cluster.
const clusterWait = 5 * time.Second

// lockWait is the maximum time that a start waits for the lock of the store. If the previous
// process was killed while it forked a hook, the child process holds the lock until it executes the
// hook. On a loaded machine, this took a quarter of a second.
const lockWait = 5 * time.Second

// ballast is the size of the file that is removed to free space when the disk is full.
const ballast = 4 << 20

// A storeFile is the file of the store. A storeFile is open in only one process and belongs to one
// cluster.
type storeFile struct {
	path      string
	log       zerolog.Logger
	client    *kube.Client
	committed func(store.Commit) // called after each attempt to commit, even if it has failed
	shortages wakeup             // raised when a shortage of the store's disk has started or ended

	db *store.DB
	// written is the time of the last write to the file before this process opened it.
	written time.Time
	// cluster is the ID of the cluster to which the store belongs; empty while the ID is not known.
	cluster string
	// refused is whether the API server has refused the request for the ID of the cluster.
	refused bool
	// opened has the IDs of all stores that this process has opened.
	opened []string
}

// open opens the store. If the API server names the ID of the cluster in time, open also checks that the store belongs
// to this cluster; see settle.
func (f *storeFile) open(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return fmt.Errorf("directory of the store: %w; make it writable, or name another with --store", err)
	}
	cluster := f.askForCluster(ctx)
	if err := f.openAny(ctx); err != nil {
		return err
	}
	if err := f.settle(ctx, <-cluster); err != nil {
		return errors.Join(err, f.db.Close())
	}
	return nil
}

// openAny opens the store file, even if the store belongs to another cluster.
func (f *storeFile) openAny(ctx context.Context) (err error) {
	f.written = lastWrite(f.path)
	if f.db, err = f.openWithRoom(ctx); err != nil {
		return err
	}
	if c := f.db.Compaction(); c != nil && c.Err != nil {
		f.log.Warn().Err(c.Err).Int64("bytes", c.Before).Msg("store not compacted although most of it is free; the next start tries again")
	} else if c != nil {
		f.log.Info().Int64("before", c.Before).Int64("after", c.After).Msg("store compacted")
	}
	f.opened = append(f.opened, f.db.ID())
	return nil
}

// openWithRoom opens the file, and waits for space on a full disk. openWithRoom does not wait if
// the file does not exist, because without a file there is no pending work.
func (f *storeFile) openWithRoom(ctx context.Context) (db *store.DB, err error) {
	var logged time.Time
	for {
		db, err = store.Open(f.path, store.Options{
			LockWait: lockWait,
			Clock:    time.Now, Committed: f.committed, Shortage: f.shortageChanged, Ballast: ballast,
		})
		if _, missing := os.Stat(f.path); !errors.Is(err, store.ErrFull) || missing != nil {
			return db, err
		}
		if time.Since(logged) >= logAgain {
			logged = time.Now()
			f.log.Error().Err(err).Msg("disk full: the store cannot be opened until space is free; free space or make the volume larger")
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(openAgain):
		}
	}
}

// shortageChanged reports that a shortage of the store's disk started or ended. The committing
// goroutine calls shortageChanged and must not be delayed, so shortageChanged only wakes the
// goroutine that logs shortages.
func (f *storeFile) shortageChanged(*store.Shortage) { f.shortages.raise() }

// A clusterID is the ID of the current cluster, or the error of the request for the ID.
type clusterID struct {
	id  string
	err error
}

// askForCluster requests the ID of the current cluster in the background, so that the caller can open the store file at
// the same time. The returned channel receives the response once.
func (f *storeFile) askForCluster(ctx context.Context) <-chan clusterID {
	response := make(chan clusterID, 1)
	go func() {
		asking, cancel := context.WithTimeout(ctx, clusterWait)
		defer cancel()
		id, err := f.client.ClusterID(asking)
		response <- clusterID{id, err}
	}()
	return response
}

// killLeftovers kills the hooks that earlier operator processes left running, if those processes used one of the stores
// in f.opened.
func (f *storeFile) killLeftovers() error {
	for _, id := range f.opened {
		killed, err := hook.KillLeftovers(id)
		if len(killed) > 0 {
			f.log.Warn().Ints("pids", killed).Msg("killed hooks that an earlier process left running")
		}
		if err != nil {
			return fmt.Errorf("hooks of an earlier process: %w", err)
		}
	}
	return nil
}

// settle checks that the open store belongs to the current cluster. If the store belongs to another cluster, settle
// renames its file and creates a new store. If the API server does not respond, or refuses the request for the ID of
// the cluster, settle returns nil without this check. awaitCluster then makes the check later. If the API server did
// not respond, checkCluster tries to make the check before the engine starts.
func (f *storeFile) settle(ctx context.Context, cluster clusterID) error {
	id, err := cluster.id, cluster.err
	if f.refused = kube.IsRefused(err); f.refused {
		f.log.Warn().Err(err).Msg("cannot identify the cluster; grant the right to get namespace kube-system")
		return nil
	}
	if err != nil {
		f.log.Warn().Err(err).Msg("the API server does not respond; the operator starts, and continues when it responds")
		return nil
	}
	other, err := f.belong(ctx, id)
	if err != nil || other == "" {
		return err
	}
	aside, err := f.rename(other)
	if err != nil {
		return err
	}
	f.log.Error().Str("store", f.path).Str("aside", aside).Str("storeCluster", other).Str("cluster", id).
		Msg("the store belongs to another cluster: it was renamed, and the operator starts with an empty one")
	if err := f.openAny(ctx); err != nil {
		return err
	}
	_, err = f.belong(ctx, id)
	return err
}

// belong records in the store that it belongs to the cluster with this ID. If the store belongs to
// another cluster, belong returns the ID of that cluster and records nothing.
func (f *storeFile) belong(ctx context.Context, id string) (other string, err error) {
	err = f.db.UpdateWithRoom(ctx, func(tx *store.Tx) error {
		startup, _, err := store.Load[store.Startup](tx, store.StartupKey())
		switch {
		case err != nil:
			return err
		case startup.Cluster == id:
			return nil
		case startup.Cluster != "":
			other = startup.Cluster
			return nil
		}
		startup.Cluster = id
		return store.Save(tx, store.StartupKey(), startup)
	})
	if err == nil && other == "" {
		f.cluster = id
	}
	return other, err
}

// rename closes the store and renames its file. rename returns the new path, which no file had
// before.
func (f *storeFile) rename(cluster string) (string, error) {
	if err := f.db.Close(); err != nil {
		return "", err
	}
	path, err := store.LinkAside(f.path, fmt.Sprintf("cluster-%.8s", cluster))
	if err != nil {
		return "", fmt.Errorf("store of another cluster: %w", err)
	}
	return path, os.Remove(f.path)
}

// checkCluster checks the cluster of the store before the engine starts, if the API server did not respond in time when
// the store was opened. Since then, the API server has usually responded to the requests for the Lease. checkCluster
// returns an error if the store belongs to another cluster, and nil if the API server does not respond within
// clusterWait.
func (f *storeFile) checkCluster(ctx context.Context) error {
	if f.refused {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, clusterWait)
	defer cancel()
	return f.awaitCluster(asking)
}

// awaitCluster checks the cluster of the store if the ID of the cluster was not known at the start. awaitCluster
// repeats the request for the ID until it succeeds or ctx ends. awaitCluster returns an error if the store belongs to
// another cluster.
func (f *storeFile) awaitCluster(ctx context.Context) error {
	if f.cluster != "" {
		return nil
	}
	retries := backoff.NewExponentialBackOff(backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	id, err := backoff.RetryWithData(func() (string, error) { return f.client.ClusterID(ctx) }, backoff.WithContext(retries, ctx))
	if err != nil && ctx.Err() == nil {
		return err
	}
	if id == "" { // because ctx has ended
		return nil
	}
	other, err := f.belong(ctx, id)
	if err == nil && other != "" {
		return fmt.Errorf("%s belongs to cluster %s, and this is cluster %s: the next start renames the file", f.path, other, id)
	}
	if err == nil {
		f.log.Info().Str("cluster", id).Msg("the API server answers")
	}
	return err
}

// lastWrite returns the time of the last write to the file at path; zero if it does not exist.
func lastWrite(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
