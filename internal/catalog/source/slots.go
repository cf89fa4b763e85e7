package source

import (
	"context"
	"sync"
)

// slots limits the number of concurrent requests, in all and to one host. A request is an HTTP request, or the fetch of
// a git or hg repository. A request first waits for a slot of its host, and then for one of the slots for all hosts. A
// host has only perHost slots, so a host that does not respond cannot use up the slots for all hosts.
type slots struct {
	all     chan struct{}
	perHost int

	mu    sync.Mutex
	hosts map[string]*hostSlots
}

// hostSlots are the slots of one host. They exist only while a request uses a slot of the host or waits for one.
type hostSlots struct {
	taken chan struct{}
	users int
}

func newSlots(all, perHost int) *slots {
	return &slots{all: make(chan struct{}, all), perHost: perHost, hosts: map[string]*hostSlots{}}
}

// acquire waits until a request to host may be sent, or until ctx ends. If err is nil, the caller must call release
// after the request.
func (s *slots) acquire(ctx context.Context, host string) (release func(), err error) {
	s.mu.Lock()
	h := s.hosts[host]
	if h == nil {
		h = &hostSlots{taken: make(chan struct{}, s.perHost)}
		s.hosts[host] = h
	}
	h.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if h.users--; h.users == 0 {
			delete(s.hosts, host)
		}
	}

	select {
	case h.taken <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
	select {
	case s.all <- struct{}{}:
	case <-ctx.Done():
		<-h.taken
		leave()
		return nil, context.Cause(ctx)
	}
	return sync.OnceFunc(func() {
		<-s.all
		<-h.taken
		leave()
	}), nil
}
