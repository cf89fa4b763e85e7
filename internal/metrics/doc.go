// Package metrics shows Prometheus what the operator does.
//
// Its nouns: a Set is all metrics of one operator, under the names of the
// addon-operator METRICS document. Of what happens it is told by calls; of what
// stands still, such as the length of queues, it asks for a State at each
// scrape, so that nothing is counted while nobody looks.
package metrics

//go:generate go test . -run Reference -update
