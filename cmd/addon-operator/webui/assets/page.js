// Updates the open view: after a commit of the store, this file fetches the view again and replaces the elements that
// differ. Without this file, the page shows the same data, but is not updated.
"use strict";
(() => {
	const main = document.getElementById("main");
	const connection = document.getElementById("connection");

	// The style sheet shows the buttons that copy a command only with this class, because they need JavaScript.
	document.documentElement.classList.add("scripts");
	main.addEventListener("click", event => {
		const button = event.target.closest(".copy"), code = button?.previousElementSibling;
		if (!code) return;
		const done = text => { button.textContent = text; setTimeout(() => { button.textContent = "Copy"; }, 2000); };
		if (navigator.clipboard) return navigator.clipboard.writeText(code.textContent).then(() => done("Copied"), () => done("Failed"));
		getSelection().selectAllChildren(code); // without TLS, a page has no access to the clipboard
		done("Selected");
	});

	// After an update, the next one waits four times as long as the update took. So updates use at most a fifth of the time.
	const share = 4;
	// A request has failed if there is no response after this number of milliseconds. Without the limit, one lost request
	// would end all updates.
	const patience = 30000;
	let updating = false, again = false, rested = 0, timer = 0;

	async function update() {
		const left = rested - performance.now();
		if (updating || left > 0) {
			again = true;
			if (!updating && !timer) timer = setTimeout(() => { timer = 0; update(); }, left);
			return;
		}
		updating = true;
		again = false;
		const began = performance.now();
		try {
			const response = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(patience) });
			const next = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("main");
			if (!next) throw new Error("the answer is no view");
			if (!next.hasAttribute("data-live")) return; // the answer is an error view; try again after the next commit
			Idiomorph.morph(main, next, { ignoreActiveValue: true, callbacks: { beforeAttributeUpdated: kept } });
			ages();
		} finally {
			rested = performance.now() + share * (performance.now() - began);
			updating = false;
			if (again) update();
		}
	}

	// Returns false for attributes that an update must not change: the person has opened or closed details, or has typed a text.
	function kept(name, node) {
		return !(name === "open" && node.nodeName === "DETAILS" || name === "value" && node.nodeName === "INPUT");
	}

	function say(text) {
		connection.textContent = text;
		connection.hidden = !text;
	}

	// A hidden view has no connection for events, because a browser allows only a few connections to one server.
	let source = null;
	function follow() {
		if (document.hidden || !main.hasAttribute("data-live")) {
			source?.close();
			source = null;
			return;
		}
		if (source) return;
		source = new EventSource("/events");
		source.addEventListener("commit", event => {
			if (event.data !== main.dataset.process) return location.reload();
			say("");
			update().catch(() => say("no answer"));
		});
		source.addEventListener("error", () => {
			say("no connection; the view was made at " + new Date(main.dataset.now).toLocaleTimeString());
			if (source.readyState === EventSource.CLOSED) {
				source = null;
				setTimeout(follow, 3000);
			}
		});
	}
	document.addEventListener("visibilitychange", follow);
	follow();

	// Updates the times since an event each second, by the clock of the server. skew is the time by which the clock of the
	// browser is ahead of the clock of the server.
	let skew = Date.now() - new Date(main.dataset.now);
	function ages() {
		skew = Math.min(skew, Date.now() - new Date(main.dataset.now));
		for (const time of main.querySelectorAll("time[data-age]")) {
			const seconds = Math.max(0, Math.floor((Date.now() - skew - new Date(time.dateTime)) / 1000));
			time.textContent = span(seconds);
		}
	}
	function span(s) {
		const two = n => String(n).padStart(2, "0");
		if (s < 60) return s + "s";
		if (s < 3600) return Math.floor(s / 60) + "m" + two(s % 60) + "s";
		if (s < 86400) return Math.floor(s / 3600) + "h" + two(Math.floor(s / 60) % 60) + "m";
		return Math.floor(s / 86400) + "d" + two(Math.floor(s / 3600) % 24) + "h";
	}
	setInterval(() => { if (!document.hidden) ages(); }, 1000);
})();
