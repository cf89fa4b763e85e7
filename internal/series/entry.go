package series

// An Entry is an operation of an owner, with the series that it is for. Make one
// with [Owner.Entry].
type Entry struct {
	op     Op
	labels map[string]string
	key    string
}

// Entry returns op as an entry of the owner's. A shard keeps of op's labels those
// that say something and that the owner does not give every series.
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

// Place returns where among the owner's shards of one group the series belongs: in
// the last one that does not begin behind it. It is the same for as long as there
// are stores.
func (e Entry) Place() uint64 { return placeOf(e.op.Name, e.key) }

// Cost returns about how many bytes the series takes, if it is a new one.
func (e Entry) Cost() int {
	v := value{Counts: make([]uint64, len(e.op.Buckets)+1)}
	return v.size(e.key)
}
