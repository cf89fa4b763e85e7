package inspect

import (
	"time"

	"addon-operator/store"
)

// lostShown is the time for which a lost span is shown after the operator has resumed its work.
const lostShown = 7 * 24 * time.Hour

// lostSpan returns the last span for which the store has no data. The result is nil if there is no such span, or if the
// operator resumed its work more than lostShown ago.
func lostSpan(u *unreadable, now time.Time) (*store.LostSpan, error) {
	lost, ok, err := load[store.LostSpan](u, store.LostSpanKey())
	if err != nil || !ok || now.Sub(lost.At) > lostShown {
		return nil, err
	}
	return &lost, nil
}
