// Package metrics implements the Prometheus metrics of the operator.
//
// A Set contains all metrics of one operator, under the names of the addon-operator METRICS document.
// Events are recorded by calls of its methods. Current values, such as the length of queues, are read as
// a State at each scrape, so that they cost nothing without a scrape.
package metrics

//go:generate go test . -run Reference -update
