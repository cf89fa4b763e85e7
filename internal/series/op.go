package series

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// An Action says what an operation does with a metric.
type Action string

// The actions of operations.
const (
	// Add adds a value to a counter.
	Add Action = "add"
	// Set sets a gauge.
	Set Action = "set"
	// Observe adds a value to a histogram.
	Observe Action = "observe"
	// Expire removes all series of a group, including those of other hooks.
	Expire Action = "expire"
)

// An Op is one valid operation on metrics, as [Parse] returns it.
type Op struct {
	Action Action `json:"action"`
	// Name is the metric's full name; empty for Expire.
	Name string `json:"name,omitempty"`
	// Group is empty for a metric that does not expire. For Expire, it is never empty.
	Group  string            `json:"group,omitempty"`
	Value  float64           `json:"value,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// Buckets are the upper bounds of the buckets of a histogram, in increasing order, without the infinite bound.
	// Buckets is nil if the action is not Observe.
	Buckets []float64 `json:"buckets,omitempty"`
}

// The limits of the text that one run of a hook writes, and of one operation in it. Lengths are in bytes.
const (
	maxText       = 4 << 20
	maxOps        = 20_000
	maxGroups     = 5_000
	maxName       = 256
	maxLabels     = 64
	maxLabelValue = 4 << 10
	maxBuckets    = 200
)

// written is an operation as a hook writes it in JSON.
type written struct {
	Name    string            `json:"name"`
	Action  Action            `json:"action"`
	Group   string            `json:"group"`
	Value   *float64          `json:"value"`
	Labels  map[string]string `json:"labels"`
	Buckets []float64         `json:"buckets"`
	Add     *float64          `json:"add"`
	Set     *float64          `json:"set"`
}

// op converts w to an operation, and resolves the shortcuts add and set. It returns an error if w is invalid.
func (w written) op(prefix string) (Op, error) {
	switch {
	case w.Add != nil && w.Set != nil:
		return Op{}, errors.New(`fields "add" and "set": only one of them is allowed`)
	case w.Add != nil: // the shortcuts override action and value, as in shell-operator
		w.Action, w.Value = Add, w.Add
	case w.Set != nil:
		w.Action, w.Value = Set, w.Set
	}
	op := Op{Action: w.Action, Group: w.Group}
	if len(w.Group) > maxName {
		return op, fmt.Errorf(`field "group": has %d bytes, more than the limit of %d`, len(w.Group), maxName)
	}
	switch w.Action {
	case Expire:
		if w.Group == "" {
			return op, errors.New(`field "group": is needed to expire; metrics without a group do not expire`)
		}
		return op, nil
	case Add, Set, Observe:
	case "":
		return op, errors.New(`field "action": is missing; give it, or "add" or "set" with a number`)
	default:
		return op, fmt.Errorf(`field "action": is %.80q; it can be add, set, observe, and with a group expire`, w.Action)
	}
	op.Name = plainName(strings.Replace(w.Name, "{PREFIX}", prefix, 1), ":")
	if err := checkName(op.Name); err != nil {
		return op, err
	}
	if w.Value == nil {
		return op, fmt.Errorf(`field "value": is missing; action %s needs a number`, w.Action)
	}
	if op.Value = *w.Value; w.Action == Add && op.Value < 0 {
		return op, fmt.Errorf(`field "value": is %v, and a counter only grows; use action set for a value that can decrease`, op.Value)
	}
	op, err := op.withLabels(w.Labels)
	if err != nil {
		return op, err
	}
	return op.withBuckets(w.Buckets)
}

// plainName returns name with an underscore in place of each character that is not a letter, a digit, an underscore or
// in the set others, and in place of a digit at the start. The page of shell-operator shows such names in the same way.
func plainName(name, others string) string {
	first := true
	return strings.Map(func(r rune) rune {
		isDigit := r >= '0' && r <= '9' && !first
		first = false
		if isDigit || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || strings.ContainsRune(others, r) {
			return r
		}
		return '_'
	}, name)
}

// withLabels returns op with the plain names of the given labels. It returns an error if the labels are invalid.
func (op Op) withLabels(labels map[string]string) (Op, error) {
	plain, err := plainLabels(labels)
	if err != nil {
		return op, err
	}
	op.Labels = plain
	return op, checkLabels(op)
}

// plainLabels returns labels with their plain names. It returns an error if two labels have the same plain name.
func plainLabels(labels map[string]string) (map[string]string, error) {
	if labels == nil {
		return nil, nil
	}
	plain := make(map[string]string, len(labels))
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		name := plainName(label, "")
		if _, exists := plain[name]; exists {
			return nil, fmt.Errorf(`field "labels": several labels have the name %.80q, in which "_" replaces other characters`, name)
		}
		plain[name] = labels[label]
	}
	return plain, nil
}

// withBuckets returns op with the given buckets. If the action of op is not Observe, it returns op unchanged. For
// Observe, nil buckets are an error, and an empty list means the default buckets of Prometheus.
func (op Op) withBuckets(buckets []float64) (Op, error) {
	switch {
	case op.Action != Observe:
		return op, nil
	case buckets == nil:
		return op, errors.New(`field "buckets": is missing; action observe needs the upper bounds of the buckets`)
	case len(buckets) == 0:
		buckets = prometheus.DefBuckets
	case len(buckets) > maxBuckets:
		return op, fmt.Errorf(`field "buckets": has %d bounds, more than the limit of %d`, len(buckets), maxBuckets)
	}
	for i := 1; i < len(buckets); i++ {
		if buckets[i] <= buckets[i-1] {
			return op, fmt.Errorf(`field "buckets": %v follows %v, and bounds must increase`, buckets[i], buckets[i-1])
		}
	}
	op.Buckets = slices.Clone(buckets)
	return op, nil
}

func checkName(name string) error {
	switch {
	case name == "":
		return errors.New(`field "name": is missing`)
	case len(name) > maxName:
		return fmt.Errorf(`field "name": has %d bytes, more than the limit of %d`, len(name), maxName)
	}
	return nil
}

func checkLabels(op Op) error {
	if len(op.Labels) > maxLabels {
		return fmt.Errorf(`field "labels": has %d labels, more than the limit of %d`, len(op.Labels), maxLabels)
	}
	for label, value := range op.Labels {
		switch {
		case len(label) > maxName:
			return fmt.Errorf(`field "labels": a name has %d bytes, more than the limit of %d`, len(label), maxName)
		case label == "":
			return errors.New(`field "labels": a label has no name`)
		case strings.HasPrefix(label, "__"):
			return fmt.Errorf(`field "labels": %q begins with "__", which Prometheus reserves`, label)
		case label == "le" && op.Action == Observe:
			return errors.New(`field "labels": "le" is the label of a histogram's buckets; use another name`)
		case len(value) > maxLabelValue:
			return fmt.Errorf(`field "labels": the value of %q has %d bytes, more than the limit of %d`, label, len(value), maxLabelValue)
		}
	}
	return nil
}
