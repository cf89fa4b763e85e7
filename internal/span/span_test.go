package span_test

import (
	"context"
	"errors"
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
