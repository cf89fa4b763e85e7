// Package metrics implements the Prometheus metrics of the operator.
//
// A Set contains all metrics of one operator, under the names in the METRICS document of addon-operator. Its methods
// record events. Current values, such as the length of queues, are read as a State at each scrape, so they cost
// nothing between scrapes.
package metrics

//go:generate go test . -run Reference -update
