// Command breakages proves that the tests of the durability code can fail. Each file in testdata is a deliberate
// breakage: a small change of one file, and the tests that must fail because of it. The program applies one breakage
// at a time, without changing files of the repository, and runs the tests of the breakage.
//
//	go run ./e2e/breakages [NAME...]
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "breakages:", err)
		os.Exit(1)
	}
}

// run applies the breakages with these names, or all breakages if names is empty, and runs their tests. The working
// directory must be the root of the repository. run returns an error if no test fails in one of the targets of a
// breakage.
func run(ctx context.Context, names []string) error {
	all, err := load(filepath.Join("e2e", "breakages", "testdata"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(b breakage) bool { return b.name == name }) {
			return fmt.Errorf("e2e/breakages/testdata has no breakage %s", name)
		}
	}
	if len(names) > 0 {
		all = slices.DeleteFunc(all, func(b breakage) bool { return !slices.Contains(names, b.name) })
	}
	missed := make([]error, len(all))
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for i, b := range all {
		group.Go(func() error {
			caught, err := b.test(ctx, ".")
			if err != nil {
				missed[i] = fmt.Errorf("%s: %w", b.name, err)
				return nil
			}
			fmt.Printf("%-45s caught by %s\n", b.name, caught)
			return nil
		})
	}
	_ = group.Wait() // errors are in missed
	if err := errors.Join(missed...); err != nil {
		return err
	}
	fmt.Printf("%d of %d breakages are caught\n", len(all), len(all))
	return nil
}
