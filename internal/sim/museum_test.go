// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMuseum replays public reports of bugs of other operators, and those that the simulation found here. The table with
// sources is docs/track-record.md; each name there is one here.
func TestMuseum(t *testing.T) {
	cases := map[string]struct {
		why   string
		plans []string
		makes int // machines that are ever made, in each of the plans
	}{
		"cluster-api-provider-aws#6131": {
			"the id isn't recorded, and the list lags", []string{"do,api-500@6", "do,crash-before@6", "do,api-lost@6,travel@9:3"}, 1},
		"cluster-api-provider-aws#5794": {
			"killed after the create, and ten times more", []string{
				"do,crash-after@5" + restarts(10), "gce,crash-after@5" + restarts(10), "aws,crash-after@5" + restarts(10), "pod,crash-after@5"}, 1},
		"cluster-api-provider-aws#1769": {
			"Get says 404 of a machine that runs", []string{"gce,gets-404@45:60", "do,gets-404@54:60", "pod,gets-404@21:60"}, 1},
		"cluster-api-provider-aws#1351": {
			"the write after the create is refused", []string{"gce,rejected@6", "pod,rejected@6"}, 1},
		"cluster-api-provider-hetzner shutdown in Create": {
			"stopped in the create: paperclipinc/karpenter-provider-hetzner#61", []string{"gce,stop-before@5", "gce,stop-after@5", "do,stop-after@5"}, 1},
		"karpenter-provider-gcp#267": {
			"the answer to a create that succeeded is lost", []string{"gce,lost@5", "do,lost@5", "aws,lost@5", "pod,lost@5"}, 1},
		"inlets-operator#100": {
			"names aren't unique", []string{"do"}, 1},
		"inlets-operator#50": {
			"the zone is needed to delete", []string{"gce,zone@44:1,delete@50"}, 1},
		"crossplane-runtime#277": {
			"a stale view right after the create", []string{"do,lag@5:40", "do,travel@7:3", "aws,travel@7:3"}, 1},
		"crossplane#3037": {
			"killed between intent and create: it goes on by itself", []string{"do,crash-before@5", "aws,crash-before@5"}, 1},
		"machine-controller-manager#318": {
			"the leader changes again and again, and calls are slow", []string{"do,old-leader@5:5,old-leader@12:50,old-leader@30:50,old-leader@60:50"}, 1},
		"machine-controller#581": {
			"deleted in the middle of the first create", []string{"do,delete@5", "do,delete@6", "pod,delete@5", "gce,delete@5"}, 1},
		"machine-controller#581, before it": {
			"deleted before the intent is written", []string{"do,delete@1", "do,delete@4", "pod,delete@3"}, 0},
		"cluster-api-provider-cloudstack#191": {
			"deleted before status names the machine", []string{"do,delete@6,api-500@6", "do,delete@8,crash-after@5"}, 1},
		"cluster-api-provider-gcp#1647": {
			"removed by hand, then deleted", []string{"gce,delete@50,vanishes@48", "pod,delete@24,vanishes@22"}, 1},
		"cluster-api-provider-aws#2270": {
			"the keys never worked, and nothing was made", []string{"gce,delete@4,keys-lost@3:120"}, 0},
		"provider-aws#69": {
			"each error has another request id", []string{"gce,no-room@5:600", "do,invalid@5"}, 1},
		"strimzi-kafka-operator#13079": {
			"nothing is written at rest", []string{"gce", "aws", "pod"}, 1},
		"external-dns#2858": {
			"a list that fails isn't an empty one", []string{"gce,cloud-500@45", "gce,page-fails@45", "do,cloud-down@54:120"}, 1},
		"karpenter-provider-aws#9479": {
			"a machine vanishes: Ready tells so within two polls", []string{"gce,vanishes@45", "do,vanishes@54", "pod,stops@21"}, 2},
		"cluster-api-provider-metal3#2002": {
			"the write of the status fails", []string{"gce,api-500@43", "gce,api-429@43", "pod,conflict@19"}, 1},
		"cluster-api-provider-aws#808": {
			"another cluster has a Proxy of that name in this account: every run has one", []string{"pod,recreate@20"}, 2},
		"cluster-operator#648": {
			"recreated, and started with a view from before", []string{"gce,recreate@44,travel@101:3", "pod,recreate@20,travel@30:3"}, 2},

		// Of the collector of orphans, and of accounts.
		"machine-controller-manager#657": {
			"restarted while the API server is down, or without its objects: no sweep deletes what it can't find", []string{
				"gce,objects=5,poke@150,poke@300,crash-before@200,api-down@201:900", "gce,objects=5,poke@150,poke@300,proxies-lost@200:1200"}, 5},
		"machine-controller-manager#583": {
			"a machine is made while a sweep waits for its list", []string{"pod,copy@28,overtaken@26:20", "do,copy@66,overtaken@65:20"}, 2},
		"machine-controller-manager-provider-aws#127": {
			"a Proxy goes and comes again within a sweep", []string{"pod,recreate@28,overtaken@26:20", "gce,recreate@48,overtaken@46:20"}, 2},
		"machine-controller-manager#718": {
			"another installation's machines, those of a namespace that isn't watched, and a person's are there in every run",
			[]string{"gce", "gce,relabel@45"}, 1},
		"machine-controller-manager-provider-azure#207": {
			"orphans on three pages, of which one fails or is missing", []string{"gce,orphans@45:7", "gce,orphans@45:7,page-fails@67", "gce,orphans@45:7,page-missing@67"}, 1},
		"cluster-api-provider-hetzner#1331": {
			"20 Proxies, and the account is throttled, full or refuses", []string{
				"gce,objects=20,throttled@30", "do,objects=20,no-room@30:600", "do,objects=20,refused@30:600"}, 20},

		// Of health.
		"strimzi-kafka-operator#13079, with probes": {
			"probes go on for an hour, and nothing is written", []string{"gce,probe", "do,probe", "gce,probe,lossy@60:2"}, 1},
		"autoscaler#6364": {
			"the machine is made and never serves: the next one has twice the time, and none is lost when the Secret is mended",
			[]string{"gce,probe,bad-secret@1:1500"}, 3},
		"karpenter-provider-aws#9479, with probes": {
			"a machine is listed as running and doesn't answer", []string{"gce,probe,break@60", "do,probe,break@60"}, 2},
		"a target's outage replaces nobody": {
			"it is down for 20 min", []string{"gce,probe,target-down@60:1200", "pod,probe,target-down@30:1200"}, 1},
		"a bad rollout stops": {
			"of 20 Proxies two lose their machines, for the user data and for its mending", []string{"gce,objects=20,probe,bad-secret@500:1800"}, 26},
		"all fall ill, and are well again after 200 s": {
			"nobody is replaced", []string{"gce,objects=20,probe,all-ill@500:200"}, 20},
		"an old view called a healthy machine not yet probed": {
			"the process is new, and its view is from before Ready", []string{"pod,objects=6,seed=1584969120,probe,recreate@145,conflict@85,travel@107:3"}, 7},
		"what was known of a target went with the last machine that used it": {
			"the target is down while the only machine is replaced", []string{"pod,seed=880856336,probe,replace@53,target-down@29:1200,conflict@155"}, 2},
		"what status says of a machine that was healthy is learned late": {
			"the first view is from before it answered, and the target is down", []string{
				"do,seed=2634114820,probe,slow@58:70,target-down@75:1200,travel@91:1,lossy@104:2"}, 1},
		"what status says of a machine that was healthy is learned late, three views on": {
			"the first view is of the last machine", []string{
				"pod,seed=3075917244,probe,edit@26:3129,revert@35,vanishes@50,target-down@84:60,travel@87:3"}, 3},
		"an older view of status counted for more than a newer one": {
			"in the first view it is ill, and the target is down", []string{
				"aws,objects=20,seed=2002280977,probe,age@526:1200,all-ill@573:200,target-down@855:1200,travel@934:3,travel@1062:3"}, 62},
		"a list with the old address took Ready away": {
			"the address changes, and lists flap", []string{"aws,objects=6,seed=1032676297,probe,bad-secret@198:1200,rotate@238:1,new-ip@405"}, 18},
		"a new machine was called healthy for the last one": {
			"killed before status names it, and the view is from when the last one answered", []string{
				"aws,seed=1822672585,probe,age@57:1200,travel@15:3,break@24,lossy@41:2,travel@76:3"}, 4},
		"an old list ended the probes of a machine that was outdated meanwhile": {
			"the user data changes as the machine comes up, and all fall ill", []string{"aws,objects=6,seed=1158050715,probe,bad-secret@140:9000,all-ill@212:900"}, 11},
		"nobody can ask through an outdated machine after a restart": {
			"all fall ill, and a new process doesn't know what they were made from", []string{
				"do,objects=6,seed=2040108934,probe,bad-secret@188:9000,hiccup@151:300,all-ill@276,crash-after@328"}, 20},

		"broken, and struck once more": {
			"it was ill from the first on, and is replaced for that", []string{
				"aws,seed=4139732605,probe,replace@3,break@65,flaps@74:40,crash-after@162"}, 4},
		"broken, and struck once more with all": {
			"the same, and the cloud is down", []string{"aws,seed=2038282235,probe,edit@12:3129,revert@21,cloud-down@72:120,break@82,all-ill@88"}, 2},
		"all fall ill, and are struck once more": {
			"they are held for the first time alone", []string{"aws,objects=20,seed=176199892,probe,slow@330:600,all-ill@477,all-ill@641:900"}, 40},

		// Found here.
		"an old view brought Ready back": {
			"the conditions are one list", []string{"gce,pause@44,edit@46:3129,resume@52,travel@60:3"}, 2},
		"an old view took Ready away": {
			"started with a view from before, and the cloud is down", []string{"gce,seed=162,recreate@4,travel@52:3,cloud-down@72:120"}, 1},
		"looks from before a create counted as proof": {
			"the API is down for a minute, then the ledger is wiped", []string{"gce,wipe@44,delete@56,api-down@2:60"}, 1},
		"the promise of a create was forgotten with the ledger": {
			"status isn't written, the ledger is wiped, the list lags", []string{"do,wipe@7,rejected@6"}, 1},
		"a create under way was forgotten with the ledger": {
			"the answer is lost, the ledger is wiped, the Proxy is deleted", []string{"aws,wipe@7,delete@19,late@5:55", "pod,wipe@7,delete@19,late@5:20"}, 1},
		"a create was sent again though its machine was seen and told to go": {
			"killed before status names the machine, which is then to be replaced", []string{"gce,replace@7,crash-before@6", "pod,replace@7,crash-before@6"}, 2},
		"an old view sent a create again whose machine had come and gone": {
			"started with a view from before the machine was replaced", []string{"pod,account@7,travel@24:3", "pod,poke@4,edit@9:3129,travel@29:3"}, 2},
		"the clock alone closed an intent": {
			"killed before status names the machine, and the clock jumps", []string{"do,clock@6:300", "do,zone@4:1,clock@9:300"}, 1},
		"a status without Ready read as done": {
			"the first write fails", []string{"aws,api-500@4", "pod,api-500@4"}, 1},
		"an older Ready read as done": {
			"a look fails after an edit", []string{"do,edit@50:3129,revert@53,cloud-500@51", "gce,edit@44:3129,revert@47,lost@45"}, 1},
		"a machine that only status named was deleted": {
			"somebody else's is written into status, and Get doesn't show yet whose it is", []string{"gce,misname@7,delete@8", "gce,misname@37,delete@38,gets-404@38:60"}, 1},
		"a new machine counted as older than the request that it met": {
			"the next process's clock is 5 min behind, and its intent lies ahead", []string{"gce,seed=288,replace@37,clock@381:-300,lag@388:200"}, 2},
		"a twin by a clock that is behind lives for minutes at most": {
			"the old leader's intent is dated 5 min ago", []string{"do,copy@63,clock@60:-300,old-leader@66:50"}, 3},
		"one list that lacks a machine doubled it, since Get was of another's": {
			"a list without it, then somebody else's is written into status", []string{"pod,misname@17,other-account@15"}, 1},
		"an intent from ahead was new again when the clock had caught up": {
			"started with a clock 5 min behind, and the Secret is gone", []string{"pod,unsecret@7,clock@5:-300"}, 0},
		"a Proxy that went in the moment of its finalizer left its machine": {
			"the API server had looked for finalizers before", []string{"gce,unheld@4", "aws,unheld@4", "do,unheld@4", "pod,unheld@4"}, 1},
		"an old view's conditions passed for those of the newest generation": {
			"the lease is lost, and the old leader writes status when the Proxy was changed", []string{"pod,recreate@17,old-leader@16:50"}, 2},
		"a new process counted who is down by a cache from before": {
			"started with a view from before the last machine was taken down", []string{
				"gce,objects=6,seed=2515850609,probe,age@166:1200,cloud-down@79:120,travel@295:3"}, 22},
		"a new process counted who is down by a cache from before, in a rollout": {
			"the same", []string{"aws,objects=6,seed=3775095245,probe,rotate@177:1,cloud-down@140:120,travel@375:3"}, 12},
		"who was ill when the target went down was replaced for it": {
			"the illness was over, and no round could show it", []string{"do,seed=4118613662,probe,rotate@37:1,hiccup@148:60,target-down@150:1200"}, 2},
		"who was ill when the target went down was replaced for it, after a restart": {
			"the illness was what status said", []string{
				"gce,objects=6,seed=1235278852,probe,recreate@138,all-ill@229:900,target-down@268:1200,crash-after@306,lag@376:40"}, 7},
		"an old list hid who had been taken down": {
			"killed in a rollout, and the next process's first list is from before", []string{
				"do,objects=20,seed=3378748332,probe,unsecret@555,rotate@564:1,flaps@123:40,all-ill@386:200,stops@397,crash-before@667"}, 43},
		"a fleet that was admitted while nothing could be written went at once": {
			"the API server was down", []string{
				"aws,objects=20,seed=3625331803,probe,unsecret@134,rotate@143:1,api-down@267:60,lag@566:40,target-down@831:60"}, 32},
		"a list from before a machine ran hid that it worked": {
			"started with an old view and an old list, in a rollout", []string{
				"aws,objects=6,seed=1348768662,probe,rotate@101:1,rotate@131:2,travel@120:3,all-ill@197"}, 12},
		"what a list from before took out of status was never known again": {
			"the same, with user data that doesn't work", []string{
				"aws,objects=20,seed=2859007924,probe,bad-secret@329:1800,travel@310:3,stops@447,flaps@1020:200"}, 63},
		"an old view wrote that an ill machine had never worked": {
			"started with a view from before Ready, and the machine falls ill", []string{
				"pod,objects=6,seed=2746200047,probe,recreate@150,crash-before@178,travel@262:3,break@268,lossy@407:2"}, 8},
		"a first machine that is gone looked like one that boots": {
			"killed in a rollout, and the create of the successor waits for its turn", []string{
				"pod,objects=20,seed=2361639585,probe,bad-secret@109:1200,rotate@149:1,travel@464:3"}, 50},
		"a first machine that is gone looked like one that boots, while a create may be under way": {
			"killed in a rollout", []string{"gce,objects=6,probe,rotate@150:1,crash-after@156"}, 12},
		"a machine was taken down before it was known who had been": {
			"killed between a delete and its status", []string{"aws,objects=6,probe,rotate@400:1,crash-before@403"}, 12},
		"an old view said that a machine had never worked": {
			"started with a view from before Ready, in a rollout", []string{
				"pod,objects=6,probe,rotate@130:1,travel@134:3", "aws,objects=6,probe,rotate@150:1,travel@154:3"}, 12},
	}
	lab, err := NewLab()
	require.NoError(t, err)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, text := range c.plans {
				p, err := ParsePlan(text)
				require.NoError(t, err)
				r := lab.Run(p, nil, true)
				require.Nil(t, r.Failure, "%s: %s: %+v\n%s", text, c.why, r.Failure, r.Trace)
				require.Empty(t, r.Beyond, text)
				require.True(t, r.Reached, "%s: the fault was never reached", text)
				require.Equal(t, c.makes, r.Creates, "%s: %s\n%s", text, c.why, r.Trace)
				require.Equal(t, r.Hash, lab.Run(p, nil, false).Hash, "%s: equal plans must give equal traces", text)
			}
		})
	}
}

// restarts kills each next process at its first call that reads the cloud.
func restarts(n int) string {
	var out strings.Builder
	for i := range n {
		out.WriteString(",")
		out.WriteString(Happening{Kind: "crash-before", At: 8 + 3*i}.String())
	}
	return out.String()
}
