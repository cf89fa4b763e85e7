package steps

import (
	"sync"

	"github.com/rs/zerolog"
)

// A logger is the log of all steps. It remembers the warnings that must not be repeated at each
// converge.
type logger struct {
	zerolog.Logger

	mu     sync.Mutex
	logged map[string]bool // by message; guarded by mu
}

// once logs a message that has not been logged in this epoch.
func (l *logger) once(level zerolog.Level, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.logged[message] {
		return
	}
	if l.logged == nil {
		l.logged = map[string]bool{}
	}
	l.logged[message] = true
	l.WithLevel(level).Msg(message)
}
