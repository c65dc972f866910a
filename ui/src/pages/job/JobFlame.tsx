// Where a job spends its time, on the CPU and on the GPU, in one tree: Python stack, module, kernel.
import { useMemo } from "preact/hooks";
import { compared, lay, sameTotal } from "../../charts/tree";
import { change, useAddress, useChoice, write } from "../../data/address";
import { useData } from "../../data/load";
import { joined, PALETTE, PALETTE_WORDS, stackTree } from "../../data/stacks";
import type { StackTime } from "../../data/types";
import { share } from "../../look/format";
import { FlameView, SCALED } from "../../parts/FlameView";
import { Choose, Empty, Failed, Search, Waiting } from "../../parts/parts";
import { before, type Part, spanOf, Zoomed } from "./part";

const EARLIER = "before";
type Weight = "both" | "host" | "running" | "device";

const WEIGHTS: [Weight, string][] = [["both", "CPU and GPU"], ["host", "CPU"], ["running", "CPU, running only"], ["device", "GPU"]];
const isHost = (weight: Weight): boolean => weight === "host" || weight === "running";

function useStacks(job: string, rank: string | null, span: string, weight: Weight): { value: StackTime[] | null; device: StackTime[] | null; failure: ReturnType<typeof useData>["failure"] } {
  const asked = rank === null ? null : `job=${encodeURIComponent(job)}&limit=5000${rank === "" ? "" : `&rank=${rank}`}&${span}`;
  const host = useData<StackTime[]>(asked && `v1/stacks?${asked}`);
  const device = useData<StackTime[]>(asked && `v1/device-stacks?${asked}`);
  const value = useMemo(() => (host.value && device.value ? [...(weight === "device" ? [] : weight === "running" ? host.value.filter((stack) => stack.state === "running") : host.value), ...(isHost(weight) ? [] : device.value)] : null), [host.value, device.value, weight]);
  return { value, device: device.value, failure: host.failure ?? device.failure };
}

export function JobFlame({ job, range }: Part) {
  const { query } = useAddress();
  const rank = query["rank"] ?? "", against = query["against"] ?? "";
  const [chosen, setWeight] = useChoice("weight", "both");
  const weight = WEIGHTS.find(([name]) => name === chosen)?.[0] ?? "both";
  const [text, setText] = useChoice("q");
  const { value: stacks, device, failure } = useStacks(job.row.job, rank, spanOf(range), weight);
  // Against another rank in the same time, or against the time before on the same ranks.
  const isEarlier = against === EARLIER;
  const other = useStacks(job.row.job, against === "" ? null : isEarlier ? rank : against, spanOf(isEarlier ? before(range) : range), weight);
  const laid = useMemo(() => {
    if (!stacks) return null;
    const tree = stackTree(stacks);
    return other.value ? compared(...sameTotal(stackTree(other.value), tree)) : lay(tree);
  }, [stacks, other.value]);
  const whole = laid?.total[0] ?? 0, known = device ? joined(device) : 0;
  return (
    <section aria-label="flame graph">
      <div class="tools"><h2>Stacks{rank === "" ? " of all processes" : ` of rank ${rank}`}</h2>
        <Choose label="time of" value={weight} onChange={setWeight}>{WEIGHTS.map(([name, words]) => <option value={name}>{words}</option>)}</Choose>
        <Choose label="rank" value={rank} onChange={(value) => change({ rank: value })}><option value="">all</option>{job.ranks.slice(0, 2000).map((row) => <option value={String(row.rank)}>{row.rank}</option>)}</Choose>
        <Choose label="compared with" value={against} onChange={(value) => change({ against: value })}><option value="">nothing</option>{(query["from"] || isEarlier) && <option value={EARLIER}>the time before it</option>}{job.ranks.slice(0, 2000).map((row) => <option value={String(row.rank)}>rank {row.rank}</option>)}</Choose>
        <Search value={text} onInput={setText} /><Zoomed job={job.row.job} range={range} /></div>
      <p class="legend">{laid?.change ? <><span><span class="swatch" style={{ background: "var(--more)" }} />a greater part than {isEarlier ? "in the time before" : `on rank ${against}`}</span><span><span class="swatch" style={{ background: "var(--less)" }} />a smaller one</span></> : PALETTE.filter((colour, i) => PALETTE_WORDS[colour] && laid?.tree.activity.includes(i)).map((colour) => <span><span class="swatch" style={{ background: `var(--${colour})` }} />{PALETTE_WORDS[colour]}</span>)}</p>
      {laid && <p class="quiet">{device && device.length > 0 && !isHost(weight) && <>Kernels stand below the code and the range that launched them, as far as they were recorded{known < 0.995 && <>: {known ? `${share(known)} of the GPU time` : "none of it"} has its launch. <a href={write(["captures"], { job: job.row.job })}>Take a capture</a> to see the rest</>}. </>}{weight !== "device" && (weight === "running" ? "CPU time of all threads while they ran." : `CPU time is of all threads${rank === "" ? " of all processes, the launcher's too" : ""}, also while they wait.`)}{laid.change && ` ${SCALED}`}</p>}
      {failure ? <Failed failure={failure} /> : !laid ? <Waiting height={300} /> : whole === 0
        ? weight === "device" ? <Empty title="No GPU time in this time" command="pilotlight doctor">Kernels are recorded in processes that <code>pilotlight run</code> starts where the NVIDIA driver and CUPTI are; the doctor says what is missing on a node.</Empty>
          : <Empty title="No stack in this time" command="pilotlight run -- python train.py">Stacks come from the sampler that <code>pilotlight run</code> starts in each process; by rank they are kept for three days.</Empty>
        : <FlameView laid={laid} text={text} palette={PALETTE} limit={20} sides={isEarlier ? { before: "before", after: "in this time" } : { before: `rank ${against}`, after: rank === "" ? "all" : `rank ${rank}` }} />}
    </section>
  );
}
