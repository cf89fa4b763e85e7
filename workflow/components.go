package workflow

// components are the parts of a transition. Each component uses only the components before it.
type components struct {
	history        history
	queues         queues
	unique         unique
	backlogs       backlogs
	parents        parents
	lanes          lanes
	exclusive      exclusive
	remover        remover
	limits         limits
	arrivals       arrivals
	deferral       deferral
	rewinds        rewinds
	pendingCancels pendingCancels
	groups         groups
	lagging        lagging
	routes         routes
	retries        retries
	preparations   preparations
	gate           gate
	openings       openings
	fanOuts        fanOuts
	skips          skips
	quarantines    quarantines
	batches        batches
	claims         claims
	repair         repair
}

// connect gives each component the components that it uses.
func (c *components) connect(x *txn) {
	c.history = history{txn: x}
	c.queues = queues{txn: x}
	c.unique = unique{txn: x}
	c.backlogs = backlogs{txn: x, history: &c.history, queues: &c.queues, unique: &c.unique}
	c.parents = parents{txn: x, queues: &c.queues, unique: &c.unique}
	c.lanes = lanes{
		txn: x, history: &c.history, queues: &c.queues, unique: &c.unique, backlogs: &c.backlogs,
	}
	c.exclusive = exclusive{txn: x, queues: &c.queues, lanes: &c.lanes}
	c.remover = remover{
		txn: x, history: &c.history, queues: &c.queues, unique: &c.unique, backlogs: &c.backlogs,
		parents: &c.parents, lanes: &c.lanes, exclusive: &c.exclusive,
	}
	c.limits = limits{txn: x, queues: &c.queues, unique: &c.unique, backlogs: &c.backlogs}
	c.arrivals = arrivals{
		txn: x, history: &c.history, queues: &c.queues, unique: &c.unique, backlogs: &c.backlogs,
		parents: &c.parents, lanes: &c.lanes, remover: &c.remover, limits: &c.limits,
	}
	c.deferral = deferral{
		txn: x, history: &c.history, queues: &c.queues, unique: &c.unique, backlogs: &c.backlogs,
		limits: &c.limits, arrivals: &c.arrivals,
	}
	c.rewinds = rewinds{
		txn: x, history: &c.history, queues: &c.queues, parents: &c.parents, remover: &c.remover,
		arrivals: &c.arrivals,
	}
	c.pendingCancels = pendingCancels{txn: x, queues: &c.queues, parents: &c.parents, remover: &c.remover}
	c.groups = groups{txn: x}
	c.lagging = lagging{
		txn: x, queues: &c.queues, parents: &c.parents, remover: &c.remover, arrivals: &c.arrivals, groups: &c.groups,
	}
	c.routes = routes{
		txn: x, queues: &c.queues, parents: &c.parents, remover: &c.remover, arrivals: &c.arrivals,
		deferral: &c.deferral, rewinds: &c.rewinds, pendingCancels: &c.pendingCancels,
	}
	c.retries = retries{
		txn: x, history: &c.history, queues: &c.queues, parents: &c.parents, exclusive: &c.exclusive, remover: &c.remover,
		arrivals: &c.arrivals, lagging: &c.lagging, limits: &c.limits,
	}
	c.preparations = preparations{
		txn: x, history: &c.history, queues: &c.queues, backlogs: &c.backlogs, parents: &c.parents, lanes: &c.lanes,
		remover: &c.remover, arrivals: &c.arrivals, rewinds: &c.rewinds,
	}
	c.gate = gate{
		txn: x, history: &c.history, queues: &c.queues, parents: &c.parents, lanes: &c.lanes,
		exclusive: &c.exclusive, remover: &c.remover, arrivals: &c.arrivals,
		limits: &c.limits,
	}
	c.openings = openings{txn: x, queues: &c.queues, gate: &c.gate}
	c.fanOuts = fanOuts{
		txn: x, queues: &c.queues, unique: &c.unique, parents: &c.parents, lanes: &c.lanes,
		exclusive: &c.exclusive, remover: &c.remover, arrivals: &c.arrivals, routes: &c.routes,
		gate: &c.gate, openings: &c.openings, lagging: &c.lagging, groups: &c.groups,
	}
	c.skips = skips{
		txn: x, queues: &c.queues, parents: &c.parents, exclusive: &c.exclusive, remover: &c.remover, routes: &c.routes,
		openings: &c.openings,
	}
	c.quarantines = quarantines{
		txn: x, history: &c.history, queues: &c.queues, unique: &c.unique, parents: &c.parents,
		lanes: &c.lanes, exclusive: &c.exclusive, remover: &c.remover, arrivals: &c.arrivals,
		openings: &c.openings,
	}
	c.batches = batches{
		txn: x, history: &c.history, queues: &c.queues, unique: &c.unique, parents: &c.parents, remover: &c.remover,
		arrivals: &c.arrivals,
	}
	c.claims = claims{
		txn: x, queues: &c.queues, unique: &c.unique, exclusive: &c.exclusive, limits: &c.limits,
		quarantines: &c.quarantines, batches: &c.batches,
	}
	c.repair = repair{
		txn: x, history: &c.history, queues: &c.queues, parents: &c.parents, backlogs: &c.backlogs, remover: &c.remover,
		limits: &c.limits,
	}
}
