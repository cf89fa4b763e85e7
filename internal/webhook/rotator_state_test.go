package webhook

import (
	"bytes"
	"crypto/tls"
	"strings"
	"testing"
	"time"
)

// A manual rotator has a clock that the test sets, and records the pairs that it begins to use.
type manual struct {
	*Rotator
	now     time.Time
	changes int      // number of calls of the function changed, one for each call of Offer
	used    []string // CAs of the pairs that replaced another pair
}

func newManual(settle time.Duration) *manual {
	m := &manual{now: time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)}
	m.Rotator = NewRotator(settle, func() time.Time { return m.now }, func() { m.changes++ }, func(p Pair) { m.used = append(m.used, string(p.CA)) })
	return m
}

// pairFor returns a pair that expires after lifetime. The tests only compare the pair, so ca can be any text.
func (m *manual) pairFor(ca string, lifetime time.Duration) Pair {
	return Pair{CA: []byte(ca), Expires: m.now.Add(lifetime), Certificate: tls.Certificate{Certificate: [][]byte{[]byte(ca)}}}
}

// inUse returns the CA of the pair in use and the CAs of the bundle.
func (m *manual) inUse() string {
	return string(m.Serving().CA) + ": " + strings.Join(strings.Fields(string(m.Bundle())), " ")
}

func (m *manual) want(t *testing.T, when, want string) {
	t.Helper()
	if got := m.inUse(); got != want {
		t.Errorf("%s: got %q, want %q", when, got, want)
	}
}

func TestARotatorWithoutAPairServesNothing(t *testing.T) {
	t.Parallel()
	m := newManual(time.Minute)
	if m.Bundle() != nil || m.Serving().CA != nil || m.rotate() != 0 {
		t.Errorf("got the bundle %q and the pair %v", m.Bundle(), m.Serving())
	}
	if _, err := m.Certificate(nil); err == nil || err.Error() != "there is no certificate yet" {
		t.Errorf("got %v", err)
	}
	m.InForce(nil)
	m.want(t, "after a registration of nothing", ": ")
}

func TestANewPairIsUsedAfterItsCAWasInForceForTheSettleTime(t *testing.T) {
	t.Parallel()
	m := newManual(time.Minute)
	m.Offer(m.pairFor("a", time.Hour))
	m.want(t, "the first pair", "a: a")
	m.Offer(m.pairFor("b", 2*time.Hour))
	m.want(t, "with a next pair", "a: a b")
	if wait := m.rotate(); wait != time.Hour {
		t.Errorf("the next pair is due in %s, want the expiry of the first one in 1h0m0s", wait)
	}

	m.InForce([]byte("a\n")) // an older bundle
	if wait := m.rotate(); wait != time.Hour {
		t.Errorf("after the registration of an older bundle, the next pair is due in %s", wait)
	}
	m.now = m.now.Add(10 * time.Second)
	m.InForce(m.Bundle())
	m.now = m.now.Add(20 * time.Second)
	m.InForce(m.Bundle()) // a second registration does not start the settle time again
	if wait := m.rotate(); wait != 40*time.Second {
		t.Errorf("20 s after the registration, the next pair is due in %s, want 40s", wait)
	}
	m.now = m.now.Add(40*time.Second - 1)
	if wait := m.rotate(); wait != 1 {
		t.Errorf("1 ns before, the next pair is due in %s", wait)
	}
	m.want(t, "before the end of the settle time", "a: a b")
	m.now = m.now.Add(1)
	if wait := m.rotate(); wait != 0 {
		t.Errorf("after the change, the rotator waits for %s", wait)
	}
	// The bundle keeps the CA of the previous pair, because clients may still have connections to a
	// server with the previous certificate.
	m.want(t, "after the settle time", "b: b a")
	if len(m.used) != 1 || m.used[0] != "b" || m.changes != 2 {
		t.Errorf("used %q after %d changes of the bundle", m.used, m.changes)
	}
	m.Offer(m.pairFor("c", 3*time.Hour))
	m.want(t, "with the pair after that", "b: b c")
}

func TestAnUnregisteredPairIsUsedWhenThePairInUseExpires(t *testing.T) {
	t.Parallel()
	m := newManual(time.Minute)
	m.Offer(m.pairFor("a", time.Hour))
	m.Offer(m.pairFor("b", 2*time.Hour))
	m.now = m.now.Add(time.Hour - 30*time.Second)
	m.InForce(m.Bundle())
	if wait := m.rotate(); wait != 30*time.Second { // the pair in use expires before the settle time ends
		t.Errorf("the next pair is due in %s, want 30s", wait)
	}
	m.now = m.now.Add(30 * time.Second)
	m.rotate()
	m.want(t, "at the expiry", "b: b a")
}

func TestAPairThatReplacesAnExpiredOneIsUsedAtOnce(t *testing.T) {
	t.Parallel()
	m := newManual(time.Minute)
	m.Offer(m.pairFor("a", time.Hour))
	if len(m.used) != 0 {
		t.Errorf("the first pair replaced another: %q", m.used)
	}
	m.now = m.now.Add(time.Hour)
	m.Offer(m.pairFor("b", time.Hour))
	m.want(t, "after the expiry", "b: b")
	if len(m.used) != 1 || m.used[0] != "b" {
		t.Errorf("used %q", m.used)
	}
}

func TestAPairWithTheCAInUseNeedsNoRegistration(t *testing.T) {
	t.Parallel()
	m := newManual(time.Minute)
	m.Offer(m.pairFor("a", time.Hour))
	renewed := m.pairFor("a", 3*time.Hour)
	m.Offer(renewed)
	m.want(t, "with a renewed certificate", "a: a")
	m.rotate()
	m.want(t, "after the change", "a: a")
	if got := m.Serving().Expires; !got.Equal(renewed.Expires) {
		t.Errorf("the pair in use expires at %s, want %s", got, renewed.Expires)
	}
}

func TestALaterOfferReplacesAPairThatIsNotInUse(t *testing.T) {
	t.Parallel()
	m := newManual(time.Minute)
	m.Offer(m.pairFor("a", time.Hour))
	m.Offer(m.pairFor("b", 2*time.Hour))
	m.InForce(m.Bundle())
	m.Offer(m.pairFor("c", 2*time.Hour))
	m.want(t, "with another next pair", "a: a c")
	m.now = m.now.Add(time.Minute)
	if wait := m.rotate(); wait != 59*time.Minute { // only the CAs a and b were registered, so the pair c is due at the expiry of a
		t.Errorf("the next pair is due in %s, want 59m0s", wait)
	}
}

func TestCAsOfABundleAreOnLinesOfTheirOwn(t *testing.T) {
	t.Parallel()
	m := newManual(time.Minute)
	first := m.pairFor("\n-----A-----\n\n", time.Hour)
	m.Offer(first)
	m.Offer(m.pairFor("-----B-----", time.Hour))
	if got, want := m.Bundle(), []byte("-----A-----\n-----B-----\n"); !bytes.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if string(first.CA) != "\n-----A-----\n\n" {
		t.Errorf("the CA of the pair became %q", first.CA)
	}
}
