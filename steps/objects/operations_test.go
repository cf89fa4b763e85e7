package objects

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/kube"
	"addon-operator/internal/operation"
	"addon-operator/workflow"
)

func TestEffectsAreNumberedAndOnlyTheLastOfAllIsLast(t *testing.T) {
	t.Parallel()
	ops, err := Parse([]byte(`
{"operation":"Delete","kind":"Pod","namespace":"default","name":"a"}
{"operation":"Delete","kind":"Pod","namespace":"default","name":"b"}`))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	operations := []string{
		`"at":"2026-01-02T03:04:05Z","operation":{"operation":"Delete","kind":"Pod","namespace":"default","name":"a"}}`,
		`"at":"2026-01-02T03:04:05Z","operation":{"operation":"Delete","kind":"Pod","namespace":"default","name":"b"}}`,
	}
	for _, last := range []bool{true, false} {
		effects, err := ops.Effects(at, last)
		if err != nil {
			t.Fatal(err)
		}
		second := `{"nth":2,"of":2,`
		if last {
			second += `"last":true,`
		}
		want := []workflow.Effect{
			{Kind: EffectKind, Data: json.RawMessage(`{"nth":1,"of":2,` + operations[0])},
			{Kind: EffectKind, Data: json.RawMessage(second + operations[1])},
		}
		if d := cmp.Diff(want, effects); d != "" {
			t.Errorf("last %t (-want +got):\n%s", last, d)
		}
	}
}

func TestNoOperationsHaveNoEffects(t *testing.T) {
	t.Parallel()
	ops, err := Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	if effects, err := ops.Effects(time.Now(), true); err != nil || len(effects) > 0 {
		t.Errorf("%v, %v", effects, err)
	}
}

func TestOnlyTheFirstRejectedOperationsAreReportedInFull(t *testing.T) {
	t.Parallel()
	var n note
	if err := n.err(); err != nil {
		t.Error(err)
	}
	for i := range maxRefused + 3 {
		s := step{Number: i + 1, Total: maxRefused + 3, Operation: operation.Operation{Type: operation.Delete, Kind: "Pod", Name: "a"}}
		n.refuse(s, errors.New("forbidden"))
	}
	err := n.err()
	if err == nil {
		t.Fatal("no error")
	}
	if got := strings.Count(err.Error(), ": forbidden"); got != maxRefused || !strings.HasSuffix(err.Error(), "; and 3 more") {
		t.Errorf("%d operations in full: %v", got, err)
	}
}

func TestAKindThatIsNotServedIsNotedOnce(t *testing.T) {
	t.Parallel()
	var n note
	for _, kind := range []string{"Widget", "widget", "Gadget"} {
		s := step{Number: 1, Total: 1, Operation: operation.Operation{APIVersion: "example.com/v1", Kind: kind}}
		n.refuse(s, fmt.Errorf("discovery: %w", kube.ErrNotServed))
		n.refuse(s, errors.New("forbidden"))
	}
	if d := cmp.Diff([]string{"example.com/v1 widget", "example.com/v1 gadget"}, n.Unserved); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
