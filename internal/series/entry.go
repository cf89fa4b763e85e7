package series

// An Entry is an operation of an owner on one series. Create one with [Owner.Entry].
type Entry struct {
	op     Op
	labels map[string]string
	key    string
}

// Entry returns op as an entry of the owner. It omits empty labels, and labels that the owner adds
// to every series.
func (o Owner) Entry(op Op) Entry {
	own := o.labels()
	labels := make(map[string]string, len(op.Labels))
	for name, value := range op.Labels {
		if _, is := own[name]; !is && value != "" {
			labels[name] = value
		}
	}
	return Entry{op, labels, keyOf(labels)}
}

// Place returns the place of the series. The series belongs to the last shard of the owner's group
// that does not start after it. The place must never change, because stores depend on it.
func (e Entry) Place() uint64 { return placeOf(e.op.Name, e.key) }

// Cost returns the approximate size of the series in bytes, if it is new.
func (e Entry) Cost() int {
	v := value{Counts: make([]uint64, len(e.op.Buckets)+1)}
	return v.size(e.key)
}
