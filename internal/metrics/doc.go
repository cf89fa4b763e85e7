// Package metrics implements the Prometheus metrics of the operator.
//
// A Set contains all metrics of one operator. Metrics that flant/addon-operator also has keep the names in its document
// METRICS. The methods of the Set record events. Current values, such as the length of queues, are read as a State at
// each scrape, so they cost nothing between scrapes.
package metrics

//go:generate go test . -run Reference -update
