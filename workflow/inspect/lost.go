package inspect

import (
	"time"

	"addon-operator/store"
)

// lostShown is how long a span that the store lost is shown after the operator took up its work again.
const lostShown = 7 * 24 * time.Hour

// lost returns the last span of which the store knows nothing, nil if there is none or if it is old.
func (s *scan) lost() (*store.LostSpan, error) {
	lost, ok, err := load[store.LostSpan](s.unreadable, store.LostSpanKey())
	if err != nil || !ok || s.now.Sub(lost.At) > lostShown {
		return nil, err
	}
	return &lost, nil
}
