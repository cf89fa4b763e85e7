package span_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"addon-operator/internal/span"
)

func TestPartsAreRecordedWithWhatIsAroundThem(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 25, 2, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	failed := errors.New("refused")
	var ticks int
	var got []span.Part
	ctx := span.With(t.Context(), span.Recorder{
		Clock: func() time.Time { ticks++; return at(ticks) },
		Ended: func(p span.Part) { got = append(got, p) },
	})
	_, first := span.Start(ctx, "first", span.Attributes{"verb": "create"})
	first.End(nil)
	inside, second := span.Start(ctx, "second", span.Attributes{})
	_, nested := span.Start(inside, "nested", nil)
	nested.Set("kind", "Job")
	nested.End(failed)
	second.Set("revision", 3)
	second.End(failed)
	want := []span.Part{
		{Number: "1", Name: "first", Began: at(1), Ended: at(2), Attributes: span.Attributes{"verb": "create"}},
		{Number: "2.1", Within: "2", Name: "nested", Began: at(4), Ended: at(5), Attributes: span.Attributes{"kind": "Job"}, Err: failed},
		{Number: "2", Name: "second", Began: at(3), Ended: at(6), Attributes: span.Attributes{"revision": 3}, Err: failed},
	}
	if d := cmp.Diff(want, got, cmpopts.EquateErrors()); d != "" {
		t.Errorf("parts (-want +got):\n%s", d)
	}
}

func TestNothingIsMeasuredWithoutARecorder(t *testing.T) {
	t.Parallel()
	ctx, s := span.Start(context.WithoutCancel(t.Context()), "first", nil)
	s.Set("revision", 3)
	s.End(nil)
	if _, nested := span.Start(ctx, "nested", nil); s != nil || nested != nil {
		t.Error("a part began")
	}
}

func TestPartsThatBeginAtTheSameTimeHaveDifferentNumbers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	numbers := map[string]string{}
	ctx := span.With(t.Context(), span.Recorder{Clock: time.Now, Ended: func(p span.Part) {
		mu.Lock()
		defer mu.Unlock()
		if other, taken := numbers[p.Number]; taken {
			t.Errorf("%s and %s have the number %s", other, p.Name, p.Number)
		}
		numbers[p.Number] = p.Name
		if around, _, isNested := strings.Cut(p.Number, "."); isNested != (p.Within != "") || isNested && around != p.Within {
			t.Errorf("part %s is within %q", p.Number, p.Within)
		}
	}})
	var work sync.WaitGroup
	for i := range 20 {
		work.Go(func() {
			inner, outside := span.Start(ctx, fmt.Sprint("part ", i), nil)
			for range 3 {
				work.Go(func() {
					_, part := span.Start(inner, fmt.Sprint("within part ", i), nil)
					part.End(nil)
				})
			}
			outside.End(nil)
		})
	}
	work.Wait()
	if len(numbers) != 80 {
		t.Errorf("%d parts are recorded", len(numbers))
	}
}

func TestAttributesOfAPartAreItsOwn(t *testing.T) {
	t.Parallel()
	var parts []span.Part
	ctx := span.With(t.Context(), span.Recorder{Clock: time.Now, Ended: func(p span.Part) { parts = append(parts, p) }})
	given := span.Attributes{"kind": "Pod"}
	failed := errors.New("failed")
	for i := range 2 {
		_, s := span.Start(ctx, "apply", given)
		s.Set("number", i)
		if i == 1 {
			s.Set("kind", "Node")
		}
		s.End([]error{nil, failed}[i])
	}
	if diff := cmp.Diff(span.Attributes{"kind": "Pod"}, given); diff != "" {
		t.Errorf("the given attributes changed (-want +got):\n%s", diff)
	}
	for i, want := range []span.Attributes{{"kind": "Pod", "number": 0}, {"kind": "Node", "number": 1}} {
		if diff := cmp.Diff(want, parts[i].Attributes); diff != "" || (parts[i].Err == nil) != (i == 0) {
			t.Errorf("part %d: %v (-want +got):\n%s", i, parts[i].Err, diff)
		}
	}
}

func TestAnAttemptWithinAnotherHasNumbersOfItsOwn(t *testing.T) {
	t.Parallel()
	var numbers []string
	record := func(of string) span.Recorder {
		return span.Recorder{Clock: time.Now, Ended: func(p span.Part) { numbers = append(numbers, of+" "+p.Number) }}
	}
	ctx, outer := span.Start(span.With(t.Context(), record("first")), "a", nil)
	_, inner := span.Start(span.With(ctx, record("second")), "b", nil)
	inner.End(nil)
	outer.End(nil)
	if diff := cmp.Diff([]string{"second 1", "first 1"}, numbers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
