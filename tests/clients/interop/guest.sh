# The peer's end of `cargo xtask interop`: servers of rping at port 7174, and at 7176 of IPv6, and a shell at port 7000 that does what it
# is sent.
ip address add fd77::2/64 dev eth0 nodad
rdma link add siw0 type siw netdev eth0
# -S comes before -a: rping calls 65536 wrong, uses it nevertheless, and forgets the error there.
rping -s -P -S 65536 -a 10.77.0.2 -p 7174 >/tmp/rping.log 2>&1 </dev/null &
rping -s -P -S 65536 -a fd77::2 -p 7176 >/tmp/rping6.log 2>&1 </dev/null &
nc -ll -p 7000 -e bash &
sleep 0.3
touch /mnt/host/ready
while [ ! -e /mnt/host/host-done ]; do sleep 0.1; done
