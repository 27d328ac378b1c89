//! What a world costs: clone, fingerprint and step, tiny and 512 MB.

use criterion::{Criterion, criterion_group, criterion_main};
use lab::oracle::Oracle;
use lab::{State, World};
use machine::{CpuId, Hw, LineOp, Profile, Step, VirtAddr};

fn world(machine: &str) -> World<()> {
    let profile = Profile::embedded(machine).expect("an embedded machine");
    let policy = pmap::policy::by_name("freebsd-2010").expect("a policy");
    World::new(State::boot(profile), policy, ())
}

fn bench(c: &mut Criterion) {
    for machine in ["tiny-vivt", "sheevaplug"] {
        let mut base = world(machine);
        let mut target = base.state.clone();
        c.bench_function(&format!("clone_from {machine}"), |b| {
            b.iter(|| target.clone_from(&base.state));
        });
        c.bench_function(&format!("clone {machine}"), |b| {
            b.iter(|| base.state.clone())
        });
        c.bench_function(&format!("fingerprint {machine}"), |b| {
            b.iter(|| base.state.fingerprint());
        });
        let step = Step::Dcache(LineOp::CleanInvalidate, VirtAddr(0));
        c.bench_function(&format!("step {machine}"), |b| {
            b.iter(|| base.step(CpuId(0), step))
        });
        let layout = base.state.pmap.layout;
        let tables = (layout.tables.1, layout.tables.2);
        let oracle = Oracle::new(&base.state.machine, tables);
        let policy = pmap::policy::by_name("freebsd-2010").expect("a policy");
        let mut watched = World::new(base.state.clone(), policy, oracle);
        c.bench_function(&format!("step {machine}, oracle"), |b| {
            b.iter(|| watched.step(CpuId(0), step));
        });
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
