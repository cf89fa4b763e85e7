package series

// An Entry is an operation of a hook on one series. [Owner.Entry] creates it.
type Entry struct {
	op     Op
	labels map[string]string
	key    string
}

// Entry returns op as an entry of the owner. It omits labels with an empty value, and the labels "hook" and "module",
// which each series of the owner has. For a global hook, it keeps the label "module".
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

// Place returns the place of the series: a hash that says which shard of the owner and group contains the series. This
// is the last shard, in the order of [Part.From], whose From is not above the place. The place of a series must never
// change, because stores depend on it.
func (e Entry) Place() uint64 { return placeOf(e.op.Name, e.key) }

// Cost returns the approximate number of bytes that the series adds to a shard if the series is new.
func (e Entry) Cost() int {
	v := value{Counts: make([]uint64, len(e.op.Buckets)+1)}
	return v.size(e.key)
}
