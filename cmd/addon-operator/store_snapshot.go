package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/store"
)

// newStoreSnapshot returns the command "store snapshot".
func newStoreSnapshot(from *sourceFlags) *cobra.Command {
	return &cobra.Command{
		Use: "snapshot FILE", Short: "Write a consistent copy of the store to a new file, and verify it", Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, argv []string) error {
			return from.with(cmd, func(ctx context.Context, s *source) error {
				size, err := copyStore(ctx, s, argv[0])
				if err == nil {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d bytes, verified\n", argv[0], size)
				}
				return err
			})
		},
	}
}

// copyStore writes the store of s to a file at path, which must not exist. The file gets its name
// when it is complete, verified and synced to disk.
func copyStore(ctx context.Context, s *source, path string) (size int64, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // if the link below was created, the file remains under the name in the argument path
	if err := errors.Join(s.get(ctx, "/store/snapshot", nil, f), f.Sync(), f.Close()); err != nil {
		return 0, err
	}
	if s.live {
		if err := store.MarkCopy(f.Name(), store.Options{Clock: time.Now}); err != nil {
			return 0, fmt.Errorf("the copy cannot be marked as a copy, and was deleted: %w", err)
		}
	}
	db, err := store.OpenReadOnly(f.Name(), store.Options{Clock: time.Now})
	if err != nil {
		return 0, fmt.Errorf("the copy is incomplete, and was deleted: %w", err)
	}
	if err := errors.Join(db.Check(), db.Close()); err != nil {
		return 0, err
	}
	info, err := os.Stat(f.Name())
	if err != nil {
		return 0, err
	}
	// Unlike a rename, a link never replaces a file.
	if err := os.Link(f.Name(), path); err != nil {
		return 0, fmt.Errorf("%w; give the path of a new file", err)
	}
	return info.Size(), nil
}
