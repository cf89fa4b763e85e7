package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// ErrNotServed is what errors.Is finds in the error for a kind the API server does not serve.
var ErrNotServed = errors.New("the API server does not serve this kind")

// errConflicts ends a write that met a newer version each time it was tried.
var errConflicts = errors.New("changed by others each time it was written")

// errAhead is the answer to a version newer than the newest the server knows: it was restored from a backup.
var errAhead = errors.New("the version is ahead of the server's newest")

// NotServedError says which kind is not served. errors.Is finds [ErrNotServed] in it.
type NotServedError struct {
	// APIVersion is the group/version asked for; empty means any.
	APIVersion string
	// Kind is as it was asked for.
	Kind string
	// Undiscovered is why some API groups could not be looked into; nil if all could. The kind may be in one of them.
	Undiscovered error
}

// Error names the kind, and the groups that could not be looked into.
func (e *NotServedError) Error() string {
	text := fmt.Sprintf("kind %q: %v", e.Kind, ErrNotServed)
	if e.APIVersion != "" {
		text = fmt.Sprintf("kind %q of %s: %v", e.Kind, e.APIVersion, ErrNotServed)
	}
	if e.Undiscovered != nil {
		text += fmt.Sprintf(" (some groups could not be looked into: %v)", e.Undiscovered)
	}
	return text
}

// Is reports that the error is an [ErrNotServed].
func (e *NotServedError) Is(target error) bool { return target == ErrNotServed }

// IsRefused reports whether the API server understood a request and will not do it, so that sending the same again is of
// no use: any 4xx but 408, 409 and 429, and a write that met a conflict each time it was tried. Everything else, among it
// 5xx, timeouts and broken connections, may succeed when it is tried again.
func IsRefused(err error) bool {
	if errors.Is(err, errConflicts) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
}

// isVersionRefused reports whether err says that a watch cannot be read on from the version it was asked for.
func isVersionRefused(err error) bool {
	return errors.Is(err, errAhead) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

const (
	retryFirst = 50 * time.Millisecond
	retryLast  = 10 * time.Second
)

// A retry says how long to wait before the API server is asked again. The zero value is ready to use.
type retry struct {
	delays *backoff.ExponentialBackOff // nil until an attempt has ended
}

// reset notes that the API server answered: the next delay is the shortest.
func (r *retry) reset() { r.delays = nil }

// next returns the delay after an attempt that ended with err: from 50 ms doubling to 10 s, with jitter, and longer if the
// API server asks for it. There is none after the first attempt if that ended without an error, as a watch does.
func (r *retry) next(err error) time.Duration {
	if r.delays == nil {
		r.delays = backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(retryFirst), backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0),
			backoff.WithMaxInterval(retryLast), backoff.WithMaxElapsedTime(0),
		)
		if err == nil {
			return 0
		}
	}
	delay := r.delays.NextBackOff()
	if seconds, asked := apierrors.SuggestsClientDelay(err); asked {
		delay = max(delay, time.Duration(seconds)*time.Second)
	}
	return wait.Jitter(delay, 0.2)
}

// pause waits for the time next returns, or until ctx ends or wake has something; wake may be nil.
func (r *retry) pause(ctx context.Context, err error, wake <-chan struct{}) {
	delay := r.next(err)
	if delay == 0 {
		return
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}
