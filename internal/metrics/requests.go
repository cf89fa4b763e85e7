package metrics

import (
	"slices"
	"strconv"
	"sync"
	"time"
)

// RequestSpan is the length of the period that [Requests] describes. The period ends when [Set.Requests] is called.
// Because requests are counted in intervals of ten seconds, the period can be up to ten seconds shorter.
const RequestSpan = 5 * time.Minute

// Requests describes the requests to the API server in the last [RequestSpan].
type Requests struct {
	// Answered is the number of completed requests, except watches and lists whose response is read as a stream. A
	// request with its retries by the client is counted once.
	Answered int
	// Within is the 95th percentile of the duration of the requests in Answered, rounded up to one of a few fixed
	// bounds. If the duration exceeds the largest bound, Within is this bound, 30 s. If Answered is 0, Within is 0.
	Within time.Duration
	// Throttled is the number of responses with status 429. Failed is the number of responses with status 5xx and of
	// requests without a response. Throttled and Failed also count watches and retries.
	Throttled, Failed int
}

// latencyBounds are the bounds to which [Requests.Within] is rounded up.
var latencyBounds = [...]time.Duration{
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
}

const (
	bucketSpan     = 10 * time.Second
	requestBuckets = int64(RequestSpan / bucketSpan)
)

// A requestWindow counts requests in buckets of ten seconds. It keeps the buckets of the last [RequestSpan].
type requestWindow struct {
	clock func() time.Time

	mu      sync.Mutex
	buckets [requestBuckets]requestBucket // guarded by mu; a bucket is reused after RequestSpan
}

// A requestBucket counts the requests in one interval of ten seconds.
type requestBucket struct {
	number            int64                   // number of the ten-second interval, counted from 1970
	within            [len(latencyBounds)]int // for each of latencyBounds, the number of requests that took at most this bound, but more than the previous bound; the last number includes longer requests
	throttled, failed int
}

// bucket returns the bucket for the current time. The caller holds mu.
func (w *requestWindow) bucket() *requestBucket {
	number := w.clock().Unix() / int64(bucketSpan/time.Second)
	b := &w.buckets[number%requestBuckets]
	if b.number != number {
		*b = requestBucket{number: number}
	}
	return b
}

// observe counts a completed request that took this time.
func (w *requestWindow) observe(took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, _ := slices.BinarySearch(latencyBounds[:], took)
	w.bucket().within[min(i, len(latencyBounds)-1)]++
}

// result counts a request with the status code 429 or 5xx, and a request without a response, for which code is not a
// number.
func (w *requestWindow) result(code string) {
	status, err := strconv.Atoi(code)
	throttled, failed := status == 429, err != nil || status >= 500
	if !throttled && !failed {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.bucket()
	if throttled {
		b.throttled++
	} else {
		b.failed++
	}
}

// requests returns the sum of the buckets of the last [RequestSpan].
func (w *requestWindow) requests() (r Requests) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var within [len(latencyBounds)]int
	oldest := w.bucket().number - requestBuckets + 1
	for i := range w.buckets {
		b := &w.buckets[i]
		if b.number < oldest {
			continue
		}
		r.Throttled += b.throttled
		r.Failed += b.failed
		for i, n := range b.within {
			within[i] += n
			r.Answered += n
		}
	}
	counted := 0
	for i, n := range within {
		if counted += n; n > 0 && 20*counted >= 19*r.Answered {
			r.Within = latencyBounds[i]
			break
		}
	}
	return r
}
