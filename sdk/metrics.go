package sdk

import "fmt"

// Metrics collects changes of metrics. In all its methods, labels may be nil.
type Metrics struct {
	group   string
	changes *[]metric // shared with the results of Group
}

// metric is one line of the file at METRICS_PATH.
type metric struct {
	Name    string            `json:"name,omitempty"`
	Action  string            `json:"action"`
	Value   *float64          `json:"value,omitempty"`
	Buckets []float64         `json:"buckets,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Group   string            `json:"group,omitempty"`
}

// Group returns a collector for the metrics of a group. If a run changes a metric of a group, the
// operator first removes all earlier metrics of the group, including those of other hooks.
func (m *Metrics) Group(name string) *Metrics {
	return &Metrics{group: name, changes: m.changes}
}

// Add adds value to a counter.
func (m *Metrics) Add(name string, value float64, labels map[string]string) {
	m.change(metric{Action: "add", Name: name, Value: &value, Labels: labels})
}

// Set sets a gauge.
func (m *Metrics) Set(name string, value float64, labels map[string]string) {
	m.change(metric{Action: "set", Name: name, Value: &value, Labels: labels})
}

// Observe adds a value to a histogram. The argument buckets has the upper bounds of the histogram's
// buckets; it must not be empty.
func (m *Metrics) Observe(name string, value float64, buckets []float64, labels map[string]string) {
	m.change(metric{Action: "observe", Name: name, Value: &value, Buckets: buckets, Labels: labels})
}

// Expire removes all metrics of the collector's group. If the collector has no group, the operator
// rejects the output of the run.
func (m *Metrics) Expire() {
	m.change(metric{Action: "expire"})
}

func (m *Metrics) change(change metric) {
	change.Group = m.group
	*m.changes = append(*m.changes, change)
}

// output returns the changes.
func (m *Metrics) output() (variable string, content []byte, err error) {
	content, err = lines(*m.changes)
	if err != nil {
		err = fmt.Errorf("metrics: %w", err) // JSON cannot represent NaN and infinity
	}
	return "METRICS_PATH", content, err
}
