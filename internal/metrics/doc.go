// Package metrics implements the Prometheus metrics of the operator.
//
// A Set contains all metrics of one operator. A metric that also exists in flant/addon-operator has the name that the
// document METRICS of flant/addon-operator gives it. The methods of the Set record events. Current values, such as the
// length of queues, are read as a State at each scrape, so they cost nothing between scrapes.
package metrics

//go:generate go test . -run Reference -update
