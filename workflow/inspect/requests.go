package inspect

import (
	"strconv"
	"time"
)

// Requests describes the requests of the operator to the API server in a period before the
// snapshot. The field Span is the length of the period.
type Requests struct {
	Span time.Duration `json:"span"`
	// Answered is the number of completed requests, except watches and lists that are read as a stream.
	// 95 % of these requests took at most the time in Within. If Within is 30 s, they can have taken
	// longer.
	Answered int           `json:"answered"`
	Within   time.Duration `json:"within"`
	// Throttled is the number of responses with status 429. Failed is the number of responses with status
	// 5xx and of requests without a response. Both numbers include watches and retries.
	Throttled int `json:"throttled,omitempty"`
	Failed    int `json:"failed,omitempty"`
}

// Requests to the API server are a problem if they reach these limits. A few failures are normal, for
// example while the API server restarts.
const (
	slowRequests    = 10 * time.Second // upper limit of a bucket; if Within reaches it, more than 1 of 20 requests took longer than 5 s, the limit of the bucket below
	leastRequests   = 20               // with fewer requests, slow ones are no problem
	manyRefusals    = 10               // minimum number of failed or throttled requests that is a problem
	shareOfFailures = 10               // failed requests are a problem if there are at most this many completed requests for each failed one
)

// slowestRequests is a command that prints where the API server has spent the most time: kinds of
// requests, calls of etcd, and admission webhooks. The command leaves out watches, because a watch
// stays open for minutes without work.
const slowestRequests = "kubectl get --raw /metrics | grep -E 'request_duration_seconds_sum|webhook_admission_duration_seconds_sum' | grep -v WATCH | sort -rgk2 | head -6"

// problem returns the problem of the API server; nil if there is none.
func (r *Requests) problem() *Problem {
	if r == nil {
		return nil
	}
	last := " in the last " + Span(r.Span)
	switch {
	case r.Failed >= manyRefusals && r.Failed*shareOfFailures >= r.Answered:
		return &Problem{Kind: KindAPIServer, Error: plural(r.Failed, "request", "requests") + " failed" + last + " (status 5xx or no response)", Fix: fixes[KindAPIServer]}
	case r.Throttled >= manyRefusals:
		return &Problem{Kind: KindAPIServer, Error: plural(r.Throttled, "request was", "requests were") + " refused" + last + " (status 429)", Fix: "find out who sends so many requests, and see the flow control of the API server: kubectl get prioritylevelconfigurations,flowschemas. The operator repeats its requests by itself"}
	case r.Answered >= leastRequests && r.Within >= slowRequests:
		return &Problem{Kind: KindAPIServer, Error: "more than 1 of 20 requests took longer than 5 s" + last + ", so all work is slow", Fix: "see the load of the API server and of etcd, and slow admission webhooks. Nothing is lost. The requests that took the most time since the API server started: " + slowestRequests}
	default:
		return nil
	}
}

// text describes the numbers and the duration of the requests.
func (r *Requests) text() string {
	if r.Answered+r.Throttled+r.Failed == 0 {
		return "no requests in " + Span(r.Span)
	}
	text := plural(r.Answered, "request", "requests") + " in " + Span(r.Span) + ", 95 % within " + r.Within.String()
	if r.Throttled > 0 {
		text += ", " + strconv.Itoa(r.Throttled) + " refused (429)"
	}
	if r.Failed > 0 {
		text += ", " + strconv.Itoa(r.Failed) + " failed"
	}
	return text
}
