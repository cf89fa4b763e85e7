package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"addon-operator/internal/helm"
	"addon-operator/store"
	"addon-operator/triggers"
)

// filterDelay is the delay before the problems of jqFilters are updated. One commit stores all
// changes that happen during the delay.
const filterDelay = 500 * time.Millisecond

// updateFailingFilters updates the problems of jqFilters until ctx ends. While the disk is full, it repeats the update.
func (s *surveys) updateFailingFilters(ctx context.Context) {
	for s.filters.raise(); ; {
		select {
		case <-ctx.Done():
			return
		case <-s.filters:
		case <-s.bindings:
		}
		if !sleep(ctx, filterDelay) {
			return
		}
		err := s.db.WithRoom(ctx, func() error {
			problems := filterProblems(s.kube.FailingFilters())
			return s.db.Update(func(tx *store.Tx) (err error) {
				if !differ(tx, store.FailingFilter, problems) {
					return nil
				}
				_, err = store.ReplaceProblems(tx, store.FailingFilter, problems)
				return err
			})
		})
		if err != nil && ctx.Err() == nil {
			s.log.Error().Err(err).Msg("cannot update the problems of jqFilters")
		}
	}
}

// differ reports whether the store has a problem of the kind, or the argument problems is not empty. Usually, the store
// and the argument have no problems, and the transaction writes nothing.
func differ(tx *store.Tx, kind store.ProblemKind, problems []store.Problem) bool {
	for range tx.Range(store.At(store.Problems).Str(string(kind))) {
		return true
	}
	return len(problems) > 0
}

// filterProblems returns one problem for each binding with a failing jqFilter. The problem names
// the first object for which the filter fails.
func filterProblems(failing []triggers.FailingFilter) []store.Problem {
	slices.SortFunc(failing, func(a, b triggers.FailingFilter) int {
		return cmp.Or(strings.Compare(a.Subject.Module, b.Subject.Module), strings.Compare(a.Subject.Hook, b.Subject.Hook),
			strings.Compare(a.Subject.Binding, b.Subject.Binding))
	})
	problems := make([]store.Problem, len(failing))
	for i, f := range failing {
		first := f.Objects[0]
		object := helm.Object{Kind: f.Kind, Namespace: first.Namespace, Name: first.Name}.String()
		hook := f.Subject.OfHook()
		problems[i] = store.Problem{
			Subject: f.Subject, Object: object, More: len(f.Objects) - 1,
			Error: fmt.Sprintf("the jqFilter of binding %s of hook %s fails on %s, so the hook does not see changes of this object: %s",
				f.Subject.Binding, hook, object, first.Err),
			Fix: "correct the jqFilter in the hook's config, for instance with (.field // default), then run addon-operator reload",
		}
	}
	return problems
}
