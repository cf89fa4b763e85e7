package store_test

import (
	stdcmp "cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

func TestProblemKeepsItsTimeAndEndsWithItsCause(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	db, err := store.OpenMemory(new(store.Memory), store.Options{Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	replace := func(wantChanged bool, problems ...store.Problem) []store.Problem {
		t.Helper()
		var all []store.Problem
		if err := db.Update(func(tx *store.Tx) error {
			changed, err := store.ReplaceProblems(tx, store.UnknownKey, problems)
			if changed != wantChanged {
				t.Errorf("changed is %t", changed)
			}
			if err == nil {
				all, err = store.AllProblems(tx)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
		return all
	}
	first := now
	one, other := store.Problem{Object: "foo", Error: "no module foo"}, store.Problem{Object: "bar", Error: "no module bar"}
	replace(true, one)
	replace(false, one)
	if all := replace(true, one, other); len(all) != 2 || !all[1].Since.Equal(first) || all[0].Since.Equal(first) {
		t.Errorf("stored %+v, want foo since %s", all, first)
	}
	if all := replace(true, other); len(all) != 1 || all[0].Object != "bar" {
		t.Errorf("stored %+v, want bar alone", all)
	}
	if all := replace(true); len(all) != 0 {
		t.Errorf("stored %+v after all were repaired", all)
	}
}

func TestAProblemIsStoredOnceForItsKindSubjectAndObject(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	p := store.Problem{Kind: store.FailingFilter, Subject: graph.Subject{Module: "nginx", Hook: "a.sh", Binding: "pods"}, Object: "Pod n/a", Error: "first"}
	others := []store.Problem{p, p, p, p, p, p}
	others[0].Kind, others[1].Subject.Module, others[2].Subject.Hook = store.UnknownKey, "redis", "b.sh"
	others[3].Subject.Binding, others[4].Subject.Configuration, others[5].Object = "nodes", "team/addons", "Pod n/b"
	update(t, db, func(tx *store.Tx) error {
		for _, p := range append(others, p) {
			if changed, err := store.SaveProblem(tx, p); !changed || err != nil {
				t.Errorf("%+v: changed %t, %v", p, changed, err)
			}
		}
		p.Error = "second"
		if changed, err := store.SaveProblem(tx, p); !changed || err != nil {
			t.Errorf("with another error: changed %t, %v", changed, err)
		}
		if changed, err := store.SaveProblem(tx, p); changed || err != nil {
			t.Errorf("again: changed %t, %v", changed, err)
		}
		return nil
	})
	view(t, db, func(tx *store.Tx) error {
		stored, _, err := store.Load[store.Problem](tx, p.Key())
		if stored.Error != "second" || err != nil {
			t.Errorf("stored is %+v, %v", stored, err)
		}
		if n := len(mustAll(t, store.EachProblem(tx))); n != len(others)+1 {
			t.Errorf("%d problems are stored, want %d", n, len(others)+1)
		}
		return nil
	})
}

func TestAnUnreadableProblemIsReplaced(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	p := store.Problem{Kind: store.UnknownKey, Object: "foo", Error: "no module foo"}
	update(t, db, func(tx *store.Tx) error {
		tx.Put(p.Key(), []byte("7"))
		if _, err := store.AllProblems(tx); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("before it is replaced: %v", err)
		}
		changed, err := store.SaveProblem(tx, p)
		if !changed {
			t.Error("not changed")
		}
		return err
	})
	view(t, db, func(tx *store.Tx) error {
		p.Since = now
		got, err := store.AllProblems(tx)
		if diff := cmp.Diff([]store.Problem{p}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		return err
	})
}

func TestProblemsOfAKindAreLimitedByNumberAndBytes(t *testing.T) {
	t.Parallel()
	many := make([]store.Problem, 600)
	large := make([]store.Problem, 20)
	for i := range many {
		many[i] = store.Problem{Object: fmt.Sprint(i), Error: "e"}
	}
	for i := range large {
		large[i] = store.Problem{Object: fmt.Sprint(i), Error: strings.Repeat("e", 50<<10), Fix: strings.Repeat("f", 50<<10)}
	}
	for name, test := range map[string]struct {
		problems []store.Problem
		stored   int
	}{"by number": {many, 500}, "by bytes": {large, 10}} {
		db := inMemory(t)
		update(t, db, func(tx *store.Tx) error {
			for i, wantChanged := range []bool{true, false} {
				if changed, err := store.ReplaceProblems(tx, store.UnknownKey, test.problems); changed != wantChanged || err != nil {
					t.Errorf("%s, call %d: changed %t, %v", name, i+1, changed, err)
				}
			}
			stored := mustAll(t, store.EachProblem(tx))
			if len(stored) != test.stored {
				t.Errorf("%s: %d problems are stored, want %d", name, len(stored), test.stored)
			}
			for _, p := range test.problems[:test.stored] {
				p.Kind = store.UnknownKey
				if tx.Get(p.Key()) == nil {
					t.Errorf("%s: problem %s is not stored", name, p.Object)
				}
			}
			return nil
		})
	}
}

func TestProblemsOfOneModuleAreDeleted(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	of := func(kind store.ProblemKind, module, object string) store.Problem {
		return store.Problem{Kind: kind, Subject: graph.Subject{Module: module}, Object: object}
	}
	update(t, db, func(tx *store.Tx) error {
		for _, p := range []store.Problem{
			of(store.FailingFilter, "nginx", "a"), of(store.FailingFilter, "nginx", "b"), of(store.FailingFilter, "nginx2", "c"),
			of(store.FailingFilter, "", "d"), of(store.UnknownKey, "nginx", "e"),
		} {
			if _, err := store.SaveProblem(tx, p); err != nil {
				return err
			}
		}
		store.DeleteProblems(tx, store.FailingFilter, "nginx")
		problems, err := store.AllProblems(tx)
		var left []string
		for _, p := range problems {
			left = append(left, p.Object)
		}
		if diff := cmp.Diff([]string{"d", "c", "e"}, left); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		return err
	})
}

func TestProblemsAreOrderedByKindSubjectAndObject(t *testing.T) {
	t.Parallel()
	p := func(kind store.ProblemKind, module, hook, binding, configuration, object string) store.Problem {
		return store.Problem{Kind: kind, Subject: graph.Subject{Module: module, Hook: hook, Binding: binding, Configuration: configuration}, Object: object}
	}
	ordered := []store.Problem{
		p("a", "z", "z", "z", "z", "z"), p("b", "", "", "", "", ""), p("b", "", "", "", "", "x"), p("b", "", "", "", "c", ""),
		p("b", "m", "a", "z", "z", "z"), p("b", "m", "b", "a", "z", "z"), p("b", "m", "b", "b", "a", "z"), p("b", "m", "b", "b", "b", "a"), p("b", "m", "b", "b", "b", "b"), p("b", "n", "", "", "", ""),
	}
	for i, a := range ordered {
		for j, b := range ordered {
			if got, want := a.Compare(b), stdcmp.Compare(i, j); got != want {
				t.Errorf("%+v and %+v compare as %d, want %d", a, b, got, want)
			}
		}
	}
}
