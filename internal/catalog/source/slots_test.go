package source

import (
	"context"
	"errors"
	"testing"
)

func take(t *testing.T, s *slots, host string) (release func()) {
	t.Helper()
	release, err := s.acquire(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	return release
}

// ended returns a canceled context and the cause of its cancellation.
func ended(t *testing.T) (context.Context, error) {
	t.Helper()
	cause := errors.New("the operator stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	return ctx, cause
}

func TestAFullHostLeavesTheSlotsOfOtherHosts(t *testing.T) {
	t.Parallel()
	s := newSlots(3, 2)
	first, second := take(t, s, "a"), take(t, s, "a")
	ctx, cause := ended(t)
	if _, err := s.acquire(ctx, "a"); !errors.Is(err, cause) {
		t.Errorf("a third slot of the host: %v", err)
	}
	other := take(t, s, "b")
	first()
	take(t, s, "a")()
	second()
	other()
	if len(s.all) != 0 || len(s.hosts) != 0 {
		t.Errorf("%d slots are taken, of the hosts %v", len(s.all), s.hosts)
	}
}

func TestARequestThatGetsNoSlotOfAllReturnsThatOfItsHost(t *testing.T) {
	t.Parallel()
	s := newSlots(1, 1)
	release := take(t, s, "a")
	ctx, cause := ended(t)
	if _, err := s.acquire(ctx, "b"); !errors.Is(err, cause) {
		t.Errorf("one slot more than the total number: %v", err)
	}
	if len(s.hosts) != 1 || s.hosts["b"] != nil {
		t.Errorf("the slots of a host without requests exist: %v", s.hosts)
	}
	release()
	take(t, s, "b")()
}

func TestASlotIsReturnedOnce(t *testing.T) {
	t.Parallel()
	s := newSlots(2, 2)
	first, second := take(t, s, "a"), take(t, s, "a")
	first()
	first()
	if len(s.all) != 1 || s.hosts["a"] == nil || s.hosts["a"].users != 1 {
		t.Errorf("after two releases of one slot, %d slots are taken, want 1", len(s.all))
	}
	second()
	if len(s.all) != 0 || len(s.hosts) != 0 {
		t.Errorf("%d slots are taken, of the hosts %v", len(s.all), s.hosts)
	}
}

// A request that is waiting for a slot gets the next slot that another request releases.
func TestAWaitingRequestGetsAReturnedSlot(t *testing.T) {
	t.Parallel()
	s := newSlots(1, 1)
	release := take(t, s, "a")
	got := make(chan error)
	go func() {
		next, err := s.acquire(t.Context(), "a")
		if err == nil {
			next()
		}
		got <- err
	}()
	release()
	if err := <-got; err != nil {
		t.Error(err)
	}
	if len(s.all) != 0 || len(s.hosts) != 0 {
		t.Errorf("%d slots are taken, of the hosts %v", len(s.all), s.hosts)
	}
}
