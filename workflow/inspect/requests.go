package inspect

import (
	"strconv"
	"time"
)

// Requests are the requests of the operator to the API server in the time Span until now.
type Requests struct {
	Span time.Duration `json:"span"`
	// Answered is the number of completed requests. 95 % of them took no longer than Within, up to 30 s.
	Answered int           `json:"answered"`
	Within   time.Duration `json:"within"`
	// Throttled is the number of responses with status 429. Failed is the number of responses with status
	// 5xx and of requests without a response.
	Throttled int `json:"throttled,omitempty"`
	Failed    int `json:"failed,omitempty"`
}

// From these numbers on, requests to the API server are a problem. A few failures are usual, for example while
// the API server restarts.
const (
	slowRequests    = 10 * time.Second // the bound of latencies above 5 s, which more than 1 of 20 requests reached
	leastRequests   = 20               // to judge how long they take
	manyRefusals    = 10
	shareOfFailures = 10 // one of so many requests
)

// slowestRequests prints the kinds of requests, calls of etcd and admission webhooks on which the API server spent the most time.
// Watches last until the client ends them, so they are no sign of load.
const slowestRequests = "kubectl get --raw /metrics | grep -E 'request_duration_seconds_sum|webhook_admission_duration_seconds_sum' | grep -v WATCH | sort -rgk2 | head -6"

// problem returns what is wrong with the API server, nil if nothing is.
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
		return &Problem{Kind: KindAPIServer, Error: "1 of 20 requests takes longer than 5 s" + last + ", so all work is slow", Fix: "see the load of the API server and of etcd, and slow admission webhooks. Nothing is lost. What took the most seconds since the API server started: " + slowestRequests}
	default:
		return nil
	}
}

// text describes the requests.
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
