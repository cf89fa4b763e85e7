package store

import "sync"

// A lifetime is the time in which a store accepts transactions. A lifetime ends once, with a
// reason.
type lifetime struct {
	done chan struct{} // closed when the lifetime ends

	mu  sync.Mutex
	err error // the reason; nil before the end
}

func newLifetime() *lifetime { return &lifetime{done: make(chan struct{})} }

// reason returns the error with which the lifetime ended; nil before its end.
func (l *lifetime) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// end ends the lifetime with the error err. If the lifetime has ended before, end does nothing.
func (l *lifetime) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		close(l.done)
	}
}
